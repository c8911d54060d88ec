/**
 * The window of keys: which keys the journal's newest records have, and a digest of each plant.
 *
 * A record is remembered while its line begins within the window, and the newest record always.
 * Positions count the journal's bytes over all files that the process has written to.
 */
import { hash, randomBytes } from "node:crypto";
import { conflict, type StoreError } from "../store.ts";
import { blockBytes, find, type Bytes } from "./lines.ts";
import { headerBytes, keyAndPlant, lineBytesMax, lineFeed } from "./record.ts";

/** The bytes of a key, and of a plant's digest. */
const digestBytes = 16;

/** The slots at first: a window without keys takes next to nothing. */
const slotsMin = 64;

/** An odd factor that no client knows: keys cannot be chosen so that they share a chain. */
const factor = randomBytes(4).readInt32LE() | 1;

/** A ring of records, the oldest first, in hash chains. It is packed: 56 bytes for each record. */
export class KeyWindow {
  readonly #bytesMax: number;

  /** The position of the journal's end, and that of its newest record. */
  #end = 0;
  #newest = 0;

  /**
   * Records have the numbers 1, 2, 3 …; `#oldest` is the first that is remembered. Record n is in
   * slot n modulo the number of slots.
   */
  #count = 0;
  #oldest = 1;
  #slots = slotsOf(slotsMin);

  /** @param bytesMax the length of the window; 0 remembers nothing */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Returns the outcome for a plant whose key a remembered record has; undefined if none has. */
  find(
    key: string | undefined,
    plant: string
  ): "replayed" | StoreError | undefined {
    if (key === undefined) return undefined;
    const bytes = Buffer.from(key, "base64url");
    const { chains, before, length } = this.#slots;
    let number = chains[this.#chainOf(bytes)] ?? 0;
    while (number >= this.#oldest) {
      const slot = number % length;
      if (this.#has(2 * slot, bytes))
        return this.#has(2 * slot + 1, digestOf(plant))
          ? "replayed"
          : conflict();
      number = before[slot] ?? 0;
    }
    return undefined;
  }

  /** Moves the end over bytes that hold no record with a key. */
  skip(bytes: number): void {
    this.#advance(bytes, this.#end);
  }

  /** Moves the end over a record with a key, and remembers it. */
  add(key: string, plant: string | Buffer, lineBytes: number): void {
    const position = this.#end;
    this.skip(lineBytes);
    const digests = [Buffer.from(key, "base64url"), digestOf(plant)];
    this.#insert(Buffer.concat(digests), position);
  }

  /** Moves the end over the files of a later window, and remembers the records of that window. */
  join(later: KeyWindow): void {
    const start = this.#end;
    const hasRecords = later.#newest > 0;
    this.#advance(
      later.#end,
      hasRecords ? start + later.#newest : this.#newest
    );
    for (const [digests, position] of later.#records())
      this.#insert(digests, start + position);
  }

  /**
   * Moves the end of a new window over a file whose end is clean. Reads the window, or the last
   * line if that is longer. A file without keys costs the read and a search of each block.
   */
  addFile(file: Bytes): void {
    if (this.#bytesMax === 0) return;
    const size = file.size();
    let start = this.#startIn(file, size);
    this.#end = start;
    while (start < size) {
      let lines = file.read(start, Math.min(blockBytes, size - start));
      let bytes = lines.lastIndexOf(lineFeed) + 1;
      if (bytes === 0 && lines.length > 0) {
        // A line longer than a block. One that is too long is damage: it is not read at once.
        bytes = find(file, lineFeed, start + lines.length, size) + 1 - start;
        if (bytes <= lineBytesMax) lines = file.read(start, bytes);
      }
      if (bytes > lineBytesMax) this.skip(bytes);
      else if (bytes > 0 && lines[bytes - 1] === lineFeed)
        this.addLines(lines.subarray(0, bytes));
      else throw new Error("another process truncates it");
      start += bytes;
    }
  }

  /** Moves the end over whole lines, and remembers the records with a key. */
  addLines(lines: Buffer): void {
    // Within a string the quotes would be escaped.
    if (!lines.includes(',"key":"')) return this.skip(lines.length);
    for (let start = 0; start < lines.length;) {
      const end = lines.indexOf(lineFeed, start) + 1;
      const found = keyAndPlant(lines.subarray(start, end - 1));
      if (found) this.add(found.key, found.plant, end - start);
      else this.skip(end - start);
      start = end;
    }
  }

  /** Returns the offset of the first line that begins within the window, or of the last line. */
  #startIn(file: Bytes, size: number) {
    for (let bytes = this.#bytesMax; size - bytes > headerBytes; bytes *= 4) {
      const start = find(file, lineFeed, size - bytes - 1, size) + 1;
      if (start < size) return start;
    }
    return headerBytes;
  }

  /** Moves the end, and forgets what is no longer within the window. */
  #advance(bytes: number, newest: number) {
    this.#newest = newest;
    this.#end += bytes;
    const start = Math.min(this.#end - this.#bytesMax, newest);
    const { positions, length } = this.#slots;
    while (
      this.#oldest <= this.#count &&
      (positions[this.#oldest % length] ?? 0) < start
    )
      this.#oldest++;
  }

  /** Returns the digests and the position of each remembered record, the oldest first. */
  #records() {
    const { positions, digests, length } = this.#slots;
    return Array.from(
      { length: this.#count - this.#oldest + 1 },
      (_, index) => {
        const slot = (this.#oldest + index) % length;
        const start = slot * 2 * digestBytes;
        const pair = digests.subarray(start, start + 2 * digestBytes);
        return [pair, positions[slot] ?? 0] as const;
      }
    );
  }

  #insert(digests: Buffer, position: number) {
    if (this.#count - this.#oldest + 1 === this.#slots.length) this.#grow();
    const slots = this.#slots;
    const number = ++this.#count;
    const slot = number % slots.length;
    const chain = this.#chainOf(digests);
    digests.copy(slots.digests, slot * 2 * digestBytes);
    slots.positions[slot] = position;
    slots.before[slot] = slots.chains[chain] ?? 0;
    slots.chains[chain] = number;
  }

  /** Doubles the slots. */
  #grow() {
    const records = this.#records();
    this.#slots = slotsOf(2 * this.#slots.length);
    this.#count = this.#oldest - 1;
    for (const [digests, position] of records) this.#insert(digests, position);
  }

  #chainOf(key: Buffer) {
    let hashed = 0;
    for (let index = 0; index < digestBytes; index += 4)
      hashed = Math.imul(hashed + key.readInt32LE(index), factor);

    // The upper bits of a product depend on all bits of its factors.
    return (hashed >>> 8) % this.#slots.length;
  }

  /** Whether the digest with this index is the given one. */
  #has(index: number, digest: Buffer) {
    const start = index * digestBytes;
    return (
      digest.compare(this.#slots.digests, start, start + digestBytes) === 0
    );
  }
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

const digestOf = (plant: string | Buffer) =>
  hash("sha256", plant, "buffer").subarray(0, digestBytes);
