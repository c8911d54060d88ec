/**
 * The window of keys: which keys the journal's newest records have, and a digest of each plant.
 *
 * A record is remembered while its line begins within the window, and the newest record always.
 * Positions count the bytes of records, without headers, over all files of the process.
 */
import { hash, randomBytes } from "node:crypto";
import { conflict } from "../store.ts";
import { find, linesOf, type Bytes } from "./lines.ts";
import { headerBytes, keyMark, lineFeed } from "./record.ts";

/** The parts of the window whose age is known. */
const partsMax = 64;

/** The bytes of a key, and of a plant's digest. */
const digestBytes = 16;

/** Fewer bytes than any line with a key has. */
const lineBytesMin = 130;

/** An odd factor that no client knows: keys cannot be chosen so that they share a chain. */
const factor = randomBytes(4).readInt32LE() | 1;

/**
 * A ring of records, the oldest first, in hash chains. It is packed: a slot has 56 bytes, whose
 * memory the system provides when the slot is first written.
 */
export class KeyWindow {
  readonly #bytesMax: number;

  /** The position where the window begins, and the one after the newest record. */
  #start = 0;
  #end = 0;

  /** Records have the numbers 1, 2, 3 …; record n is in slot n modulo the number of slots. */
  #count = 0;

  /** When each part of the window began, the oldest first, in milliseconds. */
  readonly #begun = [performance.now()];

  /** The position where the newest part began. */
  #begunAt = 0;

  /** As many as the window can have records. */
  readonly #slots: ReturnType<typeof slotsOf>;

  /**
   * Scratch space for the digests that are looked for: writing to it is faster than allocating.
   * Sharing it is safe, because every method writes and uses it within one synchronous call.
   */
  readonly #digests = Buffer.alloc(2 * digestBytes);

  /**
   * @param bytesMax the length of the window
   * @throws RangeError without memory for it: a key that is added later never lacks it
   */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#slots = slotsOf(Math.ceil(bytesMax / lineBytesMin) + 1);
  }

  /** The age of the oldest part of the window, in seconds. Every younger record is remembered. */
  get seconds() {
    return (performance.now() - (this.#begun[0] ?? 0)) / 1e3;
  }

  /** Returns the outcome for a plant whose key a remembered record has; undefined if none has. */
  find(key: string | undefined, plant: string) {
    if (key === undefined) return undefined;
    const { chains, before, positions, length } = this.#slots;
    let number = chains[this.#writeKey(this.#digests, 0, key)] ?? 0;

    // A newer record has replaced each older one in its slot.
    const replaced = Math.max(0, this.#count - length);
    while (number > replaced) {
      const slot = number % length;
      if ((positions[slot] ?? 0) < this.#start) break;
      if (this.#has(slot, 0)) {
        writePlant(this.#digests, digestBytes, plant);
        return this.#has(slot, digestBytes) ? { isReplay: true } : conflict();
      }
      number = before[slot] ?? 0;
    }
    return undefined;
  }

  /** Moves the window over lines without a key: forgets what is no longer within it. */
  skip(bytes: number) {
    if (bytes === 0) return;
    this.#start = Math.min(this.#end + bytes - this.#bytesMax, this.#end);
    this.#end += bytes;
    if (this.#end - this.#begunAt >= this.#bytesMax / partsMax) {
      this.#begunAt = this.#end;
      if (this.#begun.push(performance.now()) > partsMax) this.#begun.shift();
    }
  }

  /** Moves the end over a record, and remembers it if it has a key. */
  add(key: string | undefined, plant: string | Buffer, lineBytes: number) {
    const position = this.#end;
    this.skip(lineBytes);
    if (key === undefined) return;
    const { digests, positions, before, chains, length } = this.#slots;
    const number = ++this.#count;
    const slot = number % length;
    const start = slot * 2 * digestBytes;
    const chain = this.#writeKey(digests, start, key);
    writePlant(digests, start + digestBytes, plant);
    positions[slot] = position;
    before[slot] = chains[chain] ?? 0;
    chains[chain] = number;
  }

  /**
   * Moves the end over a file whose end is clean, and remembers its records with a key. Reads the
   * window, or the last line if that is longer. A file without keys costs the read and a search of
   * each block. Any bad line counts as one without a key.
   */
  addFile(file: Bytes) {
    const size = file.size();
    const start = this.#startIn(file, size);
    this.skip(start - headerBytes);
    if (find(file, keyMark, start, size) === size)
      return this.skip(size - start);
    for (const { record, offset, end } of linesOf(file, start, size))
      this.add(record?.key, record?.plant ?? "", end - offset);
  }

  /** Moves the end over the lines of a batch, and remembers the records with a key. */
  addLines(
    lines: Buffer,
    batch: readonly { key: string | undefined; json: string }[]
  ) {
    if (!lines.includes(keyMark)) return this.skip(lines.length);
    let start = 0;
    for (const { key, json } of batch) {
      const end = lines.indexOf(lineFeed, start) + 1;
      this.add(key, json, end - start);
      start = end;
    }
  }

  /** Returns the offset of the first line that begins within the window, or of the last line. */
  #startIn(file: Bytes, size: number) {
    for (let bytes = this.#bytesMax; size - bytes > headerBytes; bytes *= 4) {
      const start = find(file, "\n", size - bytes - 1, size) + 1;
      if (start < size) return start;
    }
    return headerBytes;
  }

  /** Writes a key, and returns its chain. */
  #writeKey(digests: Buffer, start: number, key: string) {
    digests.write(key, start, digestBytes, "base64url");
    let hashed = 0;
    for (let index = start; index < start + digestBytes; index += 4)
      hashed = Math.imul(hashed + digests.readInt32LE(index), factor);

    // The upper bits of a product depend on all bits of its factors.
    return (hashed >>> 8) % this.#slots.length;
  }

  /** Whether a slot has the key of the scratch space, at offset 0, or the plant, after it. */
  #has(slot: number, offset: number) {
    const start = slot * 2 * digestBytes + offset;

    // Not the other way round: Deno refuses places beyond the end of a shorter buffer.
    const order = this.#slots.digests.compare(
      this.#digests,
      offset,
      offset + digestBytes,
      start,
      start + digestBytes
    );
    return order === 0;
  }
}

/** Takes the digest as a string: as a Buffer from `hash`, it would cost three times as much. */
function writePlant(digests: Buffer, start: number, plant: string | Buffer) {
  const digest = hash("sha256", plant, "binary");
  digests.write(digest, start, digestBytes, "latin1");
}

const slotsOf = (length: number) => ({
  length,
  positions: new Float64Array(length),

  /** Key and plant's digest of each slot. */
  digests: Buffer.alloc(length * 2 * digestBytes),

  /**
   * The newest record of each chain, and the one before it for each slot. Nothing is removed from a
   * chain, which is safe: its numbers fall, so it ends at the first that is forgotten.
   */
  chains: new Float64Array(length),
  before: new Float64Array(length)
});
