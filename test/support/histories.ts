/**
 * Every history of five appends over two lives on the simulated disk: with each fault at each
 * operation of a life, with each thing that an operator may do between the lives.
 *
 * A life tells the truth about its own fault, as the design's tables say: by the exit code of an
 * opening that fails, and by the outcomes of its appends.
 *
 * A history is judged after a last opening without a fault, and again after a power cut that leaves
 * only what is durable: each acknowledged plant is there once, in order, and no other plant but
 * those that were sent. Only what an operator is told to do may be needed for an opening. What a
 * reader ships at any moment stays as it was.
 */
import { JournalError } from "../../src/journal/error.ts";
import { openJournal, type Journal } from "../../src/journal/journal.ts";
import { EIO, ENOSPC, header, outcomeOf, read } from "./journals.ts";
import {
  changing,
  SimulatedDisk,
  type Fault,
  type Interruption,
  type Operation,
  type Survival
} from "./simdisk.ts";

/** How an opening ends whose operation fails; the others end it in either way. */
const exitCodes: Partial<Record<Operation, number>> = {
  open: 65,
  read: 65,
  readBeside: 65,
  append: 74,
  truncate: 74,
  sync: 74,
  openBeside: 74,
  rename: 74,
  remove: 74,
  syncDirectory: 74,
  resolve: 74,
  lock: 74
};

const path = "/plants.ndjson";
export const oldPath = `${path}.1`;
const limits = { keysBytesMax: 0 };

/** What becomes of a change: it fails, or the process or the power ends before it or within. */
type Outcome =
  | { readonly error: (bytes: number) => Fault }
  | {
      readonly part?: (bytes: number) => Interruption;
      readonly survival: Survival;
    };

const none = () => 0;
const half = (bytes: number) => bytes >> 1;
const all = (bytes: number) => bytes;
const killed: Survival = { bytes: true, names: true };
const kinds = [
  "durable",
  "truncated",
  "flushed",
  "size",
  "first half",
  "second half"
] as const;
const cuts = [true, false].flatMap((names) =>
  kinds.map((bytes) => ({ bytes, names }))
);

const failure: Outcome = { error: () => ({ errno: EIO }) };

/** The outcomes of every change, and those of a write. What only reads may fail. */
const outcomes: readonly Outcome[] = [
  failure,
  { survival: killed },
  ...cuts.map((survival) => ({ survival }))
];
const writeOutcomes: readonly Outcome[] = [
  ...[EIO, ENOSPC].flatMap((errno) =>
    [none, half, all].map((taken) => ({
      error: (bytes: number) => ({ errno, bytes: taken(bytes) })
    }))
  ),
  { error: (bytes) => ({ bytes: half(bytes) }) },
  ...[half, all].flatMap((taken) =>
    [killed, ...cuts].map((survival) => ({
      part: (bytes: number) => ({ through: taken(bytes) }),
      survival
    }))
  ),
  ...outcomes.slice(1)
];

interface PlannedFault {
  /** Which step of the history. */
  readonly index: number;
  readonly outcome: Outcome;
}

/** What an operator does between the lives, or in the second one. */
export const operators = {
  "does nothing": () => undefined,
  "rotates the file in the second life": () => undefined,
  "deletes the marks"(disk: SimulatedDisk) {
    for (const mark of disk.marks())
      if (mark.includes(".closed-")) disk.discard(mark);
  },
  "copies the file": (disk: SimulatedDisk) => copy(disk, "new file"),
  "copies the file in its place": (disk: SimulatedDisk) =>
    copy(disk, "in place"),
  "moves the file, and back, or touches it": (disk: SimulatedDisk) =>
    disk.touch(path),
  "has a bad block in the last record": (disk: SimulatedDisk) =>
    lose(disk, (bytes) => bytes.fill(0, bytes.length - 20)),
  "empties the file": (disk: SimulatedDisk) =>
    lose(disk, (bytes) => disk.copy(bytes.subarray(0, 0), path, true))
} as const;

/** Loses acknowledged plants, and says so, if a mark certifies that they were there. */
function lose(disk: SimulatedDisk, damage: (bytes: Buffer) => unknown) {
  const bytes = disk.bytes(path);
  if (!bytes || !disk.isClosed(path)) return undefined;
  damage(bytes);
  return "lost";
}

export type Operator = keyof typeof operators;

const copy = (disk: SimulatedDisk, to: "new file" | "in place") => {
  const bytes = disk.bytes(path);
  if (bytes) disk.copy(Buffer.from(bytes), path, to === "in place");
};

/**
 * Returns how much of a file a reader ships that prints each line once: what a later line certifies,
 * as the recipe does.
 */
export function certifiedIn(file: Buffer): number {
  const lines = file.toString("latin1", 0, file.lastIndexOf("\n") + 1);
  return Number(
    /^"synced":(\d+),/.exec(lines.slice(lines.lastIndexOf('"synced":')))?.[1] ??
      0
  );
}

/** A program on its disk, and a reader of its file. */
export interface Subject {
  readonly make: () => SimulatedDisk;
  readonly shippedOf?: ((file: Buffer) => number) | undefined;
}

/** How a history ended: what it violates, and the operations of its lives. */
interface History {
  readonly violation: string | undefined;
  readonly steps: readonly Step[];

  /** Whether its last fault was a crash that left a state which another history has had. */
  readonly isKnown: boolean;
}

interface Step {
  readonly operation: Operation;
  readonly bytes: number;
}

/** Runs one history; ends it where it continues as one that has left the same state. */
async function run(
  subject: Subject,
  operator: Operator,
  faults: readonly PlannedFault[],
  states: Set<string>
): Promise<History> {
  const story = new Story(subject, operator, faults, states);
  const problem = await story.run();
  const { steps, isKnown } = story;
  const violation = problem && describe(operator, faults, steps, problem);
  return { violation, steps, isKnown };
}

class Story {
  readonly steps: Step[] = [];
  isKnown = false;

  /** What a life said of its fault, if that is not true. */
  #lie: string | undefined;

  /** The errors that this life has met, since it has opened the journal. */
  #met: { readonly operation: Operation; readonly errno?: number }[] = [];
  readonly #states: Set<string>;
  #faultsLeft: number;
  readonly #disk: SimulatedDisk;

  readonly #shippedOf: (file: Buffer) => number;
  #shipped = Buffer.alloc(0);

  /** The file as the reader has last seen it: a change makes another buffer. */
  #read: Buffer | undefined;
  readonly #operator: Operator;
  readonly #faults: readonly PlannedFault[];
  readonly #outcomes = new Map<number, string>();

  /** Whether a copy that no opening has flushed is at the path, and has lost bytes to a power cut. */
  #copy: "none" | "not flushed" | "lost" = "none";
  #wasPowerLost = false;

  constructor(
    { make, shippedOf = certifiedIn }: Subject,
    operator: Operator,
    faults: readonly PlannedFault[],
    states: Set<string>
  ) {
    const disk = make();
    this.#states = states;
    this.#faultsLeft = faults.length;
    this.#disk = disk;
    this.#shippedOf = shippedOf;
    this.#operator = operator;
    this.#faults = faults;
    disk.onCall = (operation, bytes) => this.#meet(operation, bytes);
  }

  async run(): Promise<string | undefined> {
    await this.#live(1, 2);
    if (this.isKnown) return undefined;
    const left = operators[this.#operator](this.#disk);
    if (left === "lost") {
      const error = await this.#open();
      return error ? undefined : "a file that has lost plants is opened";
    }
    if (this.#operator.startsWith("copies")) this.#copy = "not flushed";
    await this.#live(3, 4, 5);
    this.#disk.onCall = () => undefined;
    if (this.#lie !== undefined) return this.#lie;
    if (this.isKnown || this.#copy === "lost") return undefined;
    const first = await this.#judge();
    if (first !== undefined) return first;
    this.#restart({ bytes: "durable", names: false });
    return this.#judge();
  }

  /** Gives each step of the two lives its planned outcome. */
  #meet(operation: Operation, bytes: number): Fault | Interruption | undefined {
    this.#ship();
    const index = this.steps.push({ operation, bytes }) - 1;
    const outcome = this.#faults.find((each) => each.index === index)?.outcome;
    if (!outcome) return undefined;
    this.#faultsLeft--;
    if ("error" in outcome) {
      const fault = outcome.error(bytes);
      this.#met.push({ operation, ...fault });
      return fault;
    }
    this.#survival = outcome.survival;

    // A kill after a flush that failed, and before its note, is not guarded against.
    const isUnnoted = this.#faults.some(
      (each) =>
        each.index === index - 1 && this.steps[each.index]?.operation === "sync"
    );
    if (isUnnoted && this.#copy === "not flushed") this.#copy = "lost";
    return outcome.part?.(bytes) ?? { through: 0 };
  }

  /** Prints the lines that are new. */
  #ship() {
    const file = this.#disk.bytes(path);
    if (!file || file === this.#read || this.#operator.startsWith("rotates"))
      return;
    this.#read = file;
    const shipped = this.#shippedOf(file);
    if (shipped > this.#shipped.length)
      this.#shipped = Buffer.from(file.subarray(0, shipped));
  }

  #survival: Survival = killed;

  /** A life of the program: it opens the journal, appends, and ends, in order or by a fault. */
  async #live(...ids: readonly number[]) {
    this.#survival = killed;
    this.#met = [];
    for (const id of ids) this.#outcomes.set(id, "never sent");
    const before = this.#disk.bytes(path);
    try {
      const journal = await openJournal(path, { disk: this.#disk, limits });
      this.#copy = "none";
      this.#met = [];
      let failures = 0;
      journal.on("failed", () => failures++);
      for (const id of ids) {
        if (id === 4 && this.#operator.startsWith("rotates"))
          await this.#rotate(journal);
        const stored = journal.append({ id: BigInt(id), name: "Fern" });
        this.#outcomes.set(id, await outcomeOf(stored));
      }
      await journal.close();
      if (!this.#disk.isDown) this.#checkOutcomes(ids, failures);
    } catch (error) {
      if (!this.#disk.isDown) this.#checkRefusal(error, before);

      // The program has ended with an exit code: the next life follows, once a person has done what
      // the message says.
      if (String(error).includes("no note of it could be left")) {
        copy(this.#disk, "new file");
        this.#copy = "not flushed";
      }
    }
    const isCrash = this.#disk.isDown;
    this.#restart(this.#survival);
    if (!isCrash || this.#faultsLeft > 0) return;
    const state = JSON.stringify([
      ids.length,
      ids.includes(1) ? this.#operator : "",
      this.#copy,
      this.#wasPowerLost,
      [...this.#outcomes],
      this.#disk.describe().replaceAll(variable, "")
    ]);
    this.isKnown = this.#states.has(state);
    this.#states.add(state);
  }

  /** Renames the file, as an operator does, and rotates; once more if that fails. */
  async #rotate(journal: Journal) {
    const met = this.#met;
    const { onCall } = this.#disk;
    this.#disk.onCall = () => undefined;
    this.#disk.rename(path, oldPath);
    this.#disk.onCall = onCall;
    this.#met = [];
    await journal
      .rotate()
      .catch(() => journal.rotate())
      .catch(() => false);

    // No fault of a rotation decides the outcome of an append, but that of a look at the old file.
    const looks = this.#met.filter(({ operation }) => operation === "look");
    this.#met = [...met, ...looks];
  }

  /** A fault during an append decides its outcome, and those of all later ones. */
  #checkOutcomes(ids: readonly number[], failures: number) {
    const [fault, another] = this.#met;
    if (another) return;
    const outcomes = ids.map((id) => this.#outcomes.get(id)).join(" ");
    const { operation, errno } = fault ?? {};
    const isFinal = operation === "append" && errno === EIO;
    const isFull = operation === "append" && errno === ENOSPC;

    // Looking fails during an append, or later, when a mark is left.
    const form = isFull
      ? /^(stored )*full( stored)*$/
      : isFinal
        ? /^(stored )*unknown( unknown)*$/
        : operation === "look"
          ? /^(stored ?)*(unknown ?)*$/
          : /^stored( stored)*$/;
    const expected = outcomes.includes("unknown") ? 1 : 0;
    if (!form.test(outcomes) || failures !== expected)
      this.#lie ??= `${outcomes}, and ${failures} failures`;
  }

  /** The operation that failed decides how an opening ends. A read error leaves the file as it was. */
  #checkRefusal(error: unknown, before: Buffer | undefined) {
    const [fault, another] = this.#met;
    if (!fault || another) return;
    const { operation } = fault;
    const exitCode = error instanceof JournalError ? error.exitCode : 70;
    const expected =
      operation === "open" && !before ? 74 : (exitCodes[operation] ?? exitCode);
    const after = this.#disk.bytes(path) ?? Buffer.alloc(0);
    const isChanged = exitCode === 65 && before?.equals(after) === false;
    if (exitCode === 70 || exitCode !== expected || isChanged)
      this.#lie ??= `an opening whose ${operation} fails ends with ${error}`;
  }

  #restart(survival: Survival) {
    this.#disk.restart(survival);
    if (survival === killed) return;
    this.#wasPowerLost = true;
    if (this.#copy === "not flushed") this.#copy = "lost";
  }

  /** Opens the journal without a fault, after what a person is told to do; returns what is wrong. */
  async #judge(): Promise<string | undefined> {
    let error = await this.#open();
    if (error?.includes("a flush of it failed")) {
      copy(this.#disk, "new file");
      for (const mark of this.#disk.marks()) this.#disk.discard(mark);
      error = await this.#open();
    }
    if (this.#disk.bytes(oldPath)) error ??= await this.#open(oldPath);
    if (error !== undefined) return `opening is refused: ${error}`;
    const file = this.#disk.bytes(path) ?? Buffer.alloc(0);
    if (!file.subarray(0, this.#shipped.length).equals(this.#shipped))
      return "what a reader has shipped has changed";
    const old = read(this.#disk.bytes(oldPath) ?? Buffer.from(header));
    const current = read(file);
    const ids = [...old.ids, ...current.ids];
    const fault = old.fault + current.fault;
    const stored = [...this.#outcomes].filter(([id, outcome]) =>
      outcome === "stored"
        ? true
        : this.#mayBeThere(outcome) && ids.includes(id)
    );
    const expected = stored.map(([id]) => id).join();
    return fault || ids.join() !== expected
      ? `found ${ids.join()} ${fault}, expected ${expected}`
      : undefined;
  }

  /** Opens and closes the journal; returns the error, if there is one. */
  #open(name = path) {
    return openJournal(name, { disk: this.#disk, limits }).then(
      (journal) => journal.close(),
      (error: unknown) => String(error)
    );
  }

  /** A truncation that was not durable may be undone by a power cut, and only by that. */
  #mayBeThere(outcome: string): boolean {
    return outcome === "unknown" || (outcome === "full" && this.#wasPowerLost);
  }
}

/** What differs between two histories that are equal: UUIDs, times, checksums. */
const variable =
  /[\da-f]{8}-[\da-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|crc[^}]*|closed-[\d-]+|[\da-f]{8} (?=\{)/g;

/** Yields all faults that a history may have after a step. */
function* faultsOf({ steps }: History, after = -1) {
  for (const [index, { operation }] of steps.entries()) {
    if (index <= after) continue;
    const each =
      operation === "append"
        ? writeOutcomes
        : changing.has(operation)
          ? outcomes
          : [failure];
    for (const outcome of each) yield { index, outcome };
  }
}

/** Says what a history was, for a person. */
const describe = (
  operator: Operator,
  faults: readonly PlannedFault[],
  steps: readonly Step[],
  problem: string
): string =>
  `an operator ${operator}; ` +
  faults
    .map(({ index, outcome }) => {
      const { operation, bytes } = steps[index] ?? {};
      const what =
        "error" in outcome
          ? outcome.error(bytes ?? 0)
          : [outcome.survival, outcome.part?.(bytes ?? 0)];
      return `step ${index}, ${operation}: ${JSON.stringify(what)}`;
    })
    .join("; ") +
  `: ${problem}`;

/** Runs every history with so many faults, until one violates what must hold. */
export async function explore(
  subject: Subject,
  faultsMax: number,
  operatorsTried = Object.keys(operators) as readonly Operator[]
) {
  let count = 0;
  const states = new Set<string>();
  for (const operator of operatorsTried) {
    const history = (...faults: readonly PlannedFault[]) => {
      count++;
      return run(subject, operator, faults, states);
    };
    const whole = await history();
    if (whole.violation !== undefined) return { ...whole, count };
    for (const first of faultsOf(whole)) {
      const found = await history(first);
      if (found.violation !== undefined) return { ...found, count };
      if (faultsMax === 1 || found.isKnown) continue;
      for (const second of faultsOf(found, first.index)) {
        const last = await history(first, second);
        if (last.violation !== undefined) return { ...last, count };
      }
    }
  }
  return { count, violation: undefined };
}
