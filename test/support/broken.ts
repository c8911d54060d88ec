/** Broken programs: each is the journal on a disk that leaves out, or does too early, one step. */
import type { JournalFile } from "../../src/journal/files.ts";
import { oldPath, type Operator, type Subject } from "./histories.ts";
import { header } from "./journals.ts";
import { SimulatedDisk } from "./simdisk.ts";

type Make = () => SimulatedDisk;

/** A disk with other operations. */
const disk =
  (change: (disk: SimulatedDisk) => Partial<SimulatedDisk>): Make =>
  () => {
    const made = new SimulatedDisk();
    return Object.assign(made, change(made));
  };

/** A disk whose files have other operations. */
const file = (
  change: (
    file: JournalFile,
    disk: SimulatedDisk,
    path: string
  ) => Partial<JournalFile>
): Make =>
  disk((made) => {
    const open = made.open.bind(made);
    return {
      open: (path: string) => {
        const opened = open(path);
        return { ...opened, ...change(opened, made, path) };
      }
    };
  });

const nothing = () => undefined;

/** A disk that does something else with the files whose names have an ending. */
const without = (
  operation: "openBeside" | "readBeside" | "listEmpty",
  part: string
): Make =>
  disk((made) => {
    const { openBeside, readBeside, listEmpty } = made;
    return {
      openBeside(path) {
        const opened = openBeside.call(made, path);
        if (operation === "openBeside" && path.includes(part))
          made.discard(path);
        return opened;
      },
      readBeside: (...given) =>
        operation === "readBeside" ? undefined : readBeside.apply(made, given),
      listEmpty: (path, form) =>
        operation === "listEmpty" && form.source.includes(part)
          ? []
          : listEmpty.call(made, path, form)
    };
  });

/** Syncs a directory only while a file of this name is, or is not, in it. */
const syncingIf = (isSynced: (names: readonly string[]) => boolean): Make =>
  disk((made) => {
    const { syncDirectory } = made;
    return {
      syncDirectory: async (path) => {
        if (isSynced(made.names())) await syncDirectory.call(made, path);
      }
    };
  });

/**
 * A journal that was closed, on a disk whose marks fit every state of a file: all depends on when
 * they are there. No power cut brings one back that was removed.
 */
const withEqualStates = (isRemoved: (path: string) => boolean): Make =>
  disk((made) => {
    const { remove } = made;
    made.statesAreEqual = true;
    made.put("/plants.ndjson", Buffer.from(header));
    made.markClosed("/plants.ndjson");
    return {
      remove(path) {
        if (!isRemoved(String(path))) return;
        remove.call(made, path);
        made.discard(String(path));
      }
    };
  });

/** The program itself on such a disk. */
export const removingMarks = withEqualStates(() => true);

const hasCopy = (names: readonly string[]) =>
  names.some((name) => name.endsWith(".rewrite"));

const programs: Record<string, Make> = {
  "an opening that trusts every file": disk((made) => {
    const list = made.listEmpty.bind(made);
    return {
      listEmpty(path, form) {
        const isWhole = made.bytes(path)?.subarray(133).at(-1) === 0x0a;
        return isWhole && form.source.includes("closed")
          ? [`${path}.closed-${made.look(path)?.state}`]
          : list(path, form);
      }
    };
  }),
  "an opening that does not remember a failed flush": without(
    "openBeside",
    ".unflushed-"
  ),
  "an opening that does not heed the note of a failed flush": without(
    "listEmpty",
    "unflushed"
  ),
  "a batch that failed and stays": file((opened) => ({
    truncate: (bytes) => {
      if (bytes === 0) opened.truncate(bytes);
    }
  })),
  "a rewrite without a copy": disk((made) => {
    const { rename, remove } = made;
    return {
      rename: (from, to) => {
        if (!String(to).endsWith(".rewrite")) rename.call(made, from, to);
      },
      remove: (path) => {
        if (!String(path).endsWith(".rewrite")) remove.call(made, path);
      }
    };
  }),
  "a copy whose directory is not synced": syncingIf((names) => !hasCopy(names)),
  "a new file whose directory is not synced": disk(() => ({
    syncDirectory: () => Promise.resolve()
  })),
  "a start that does not wait until its directory is synced": disk((made) => {
    const { syncDirectory } = made;
    return {
      async syncDirectory(path) {
        void syncDirectory.call(made, path).catch(nothing);
      }
    };
  }),
  "a rotation whose directory is not synced": syncingIf(
    (names) => !names.includes(oldPath)
  ),
  "an opening that does not flush the file": file(() => ({
    sync: () => Promise.resolve()
  })),
  "an opening that takes no mark for a proof": without("listEmpty", "closed"),
  "an opening that ignores a pending copy": without("readBeside", ""),
  "an end that is not truncated": file(() => ({ truncate: nothing })),
  "a plant that is acknowledged before its write returns": disk(() => ({
    lies: true
  })),
  "a failed write that is taken for done": file((opened) => ({
    append: (bytes) => opened.append(bytes).catch(() => bytes.length)
  })),
  "a failed write that is tried again": file((opened) => ({
    append: (bytes) => opened.append(bytes).catch(() => opened.append(bytes))
  })),
  "a short write that is taken for whole": file((opened) => ({
    append: (bytes) => opened.append(bytes).then(() => bytes.length)
  })),
  "a read error that is taken for the file's end": file((opened) => ({
    read(offset, length) {
      try {
        return opened.read(offset, length);
      } catch {
        return Buffer.alloc(0);
      }
    }
  })),
  "a full disk that is taken for a broken one": file((opened) => ({
    append: (bytes) =>
      opened.append(bytes).catch((error: unknown) => {
        throw new Error("EIO", { cause: error });
      })
  })),
  "a mark that is left after a failure": file((opened, made, path) => ({
    close: () => {
      if (!made.isDown) made.markClosed(path);
      opened.close();
    }
  })),
  "a mark that is never removed": withEqualStates(
    (path) => !path.includes(".closed-")
  )
};

/** A reader that prints whole lines which no later one certifies. */
const wholeLines = (file: Buffer) => file.lastIndexOf("\n") + 1;

/** What an operator does in the history that finds the broken program; by default, nothing. */
const operatorOf: Readonly<Record<string, Operator>> = {
  "an opening that does not remember a failed flush": "copies the file",
  "an opening that does not heed the note of a failed flush": "copies the file",
  "an opening that does not flush the file": "copies the file",
  "a rotation whose directory is not synced":
    "rotates the file in the second life",
  "a rewrite without a copy": "deletes the marks",
  "a start that does not wait until its directory is synced":
    "deletes the marks",
  "an opening that ignores a pending copy": "deletes the marks",
  "an opening that takes no mark for a proof":
    "has a bad block in the last record"
};

const subjects: Readonly<Record<string, Subject>> = {
  ...Object.fromEntries(
    Object.entries(programs).map(([says, make]) => [says, { make }])
  ),
  "a reader that ships lines before a later one certifies them": {
    make: () => new SimulatedDisk(),
    shippedOf: wholeLines
  }
};

export const brokenPrograms = Object.entries(subjects).map(
  ([says, subject]) => ({
    says,
    subject,
    operator: operatorOf[says] ?? "does nothing"
  })
);
