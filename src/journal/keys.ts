/**
 * The window of keys: which keys the journal's newest records have, and a digest of each plant.
 *
 * A record is remembered while its line begins within the window, and the newest record always.
 * Positions count the journal's bytes over all files that the process has written to.
 */
import { hash, randomBytes } from "node:crypto";
import { conflict, type StoreError } from "../store.ts";
import { blockBytes, find, type Bytes } from "./lines.ts";
import {
  headerBytes,
  keyAndPlant,
  lineBytesMax,
  lineFeed,
  type KeyedPlant
} from "./record.ts";

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

  /**
   * Scratch space for the digests of a key and its plant: writing to it is faster than allocating.
   * Sharing it is safe, because every method writes and uses it within one synchronous call.
   */
  readonly #digests = Buffer.alloc(2 * digestBytes);

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
    writeKey(this.#digests, key);
    const { chains, before, length } = this.#slots;
    let number = chains[this.#chainOf(this.#digests, 0)] ?? 0;
    while (number >= this.#oldest) {
      const slot = number % length;
      if (this.#has(slot, 0)) {
        writePlant(this.#digests, plant);
        return this.#has(slot, digestBytes) ? "replayed" : conflict();
      }
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
    writeKey(this.#digests, key);
    writePlant(this.#digests, plant);
    this.#insert(this.#digests, 0, position);
  }

  /** Moves the end over the files of a later window, and remembers the records of that window. */
  join(later: KeyWindow): void {
    const start = this.#end;
    const hasRecords = later.#newest > 0;
    this.#advance(
      later.#end,
      hasRecords ? start + later.#newest : this.#newest
    );
    for (const { offset, position } of later.#records())
      this.#insert(later.#slots.digests, offset, start + position);
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

  /**
   * Moves the end over whole lines, and remembers the records with a key.
   *
   * @param records the key and the plant of each line, if they are known. Default: they are read
   */
  addLines(lines: Buffer, records?: readonly KeyedPlant[]): void {
    // Within a string the quotes would be escaped.
    if (!lines.includes(',"key":"')) return this.skip(lines.length);
    let start = 0;
    for (let index = 0; start < lines.length; index++) {
      const end = lines.indexOf(lineFeed, start) + 1;
      const { key, json } =
        records?.[index] ?? keyAndPlant(lines.subarray(start, end - 1));
      if (key === undefined) this.skip(end - start);
      else this.add(key, json, end - start);
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

  /** Returns the offset of the digests and the position of each record, the oldest first. */
  #records() {
    const { positions, length } = this.#slots;
    return Array.from(
      { length: this.#count - this.#oldest + 1 },
      (_, index) => {
        const slot = (this.#oldest + index) % length;
        return {
          offset: slot * 2 * digestBytes,
          position: positions[slot] ?? 0
        };
      }
    );
  }

  /** @param offset the offset of the record's digests within the given ones */
  #insert(digests: Buffer, offset: number, position: number) {
    if (this.#count - this.#oldest + 1 === this.#slots.length) this.#grow();
    const slots = this.#slots;
    const number = ++this.#count;
    const slot = number % slots.length;
    const chain = this.#chainOf(digests, offset);
    const end = offset + 2 * digestBytes;
    digests.copy(slots.digests, slot * 2 * digestBytes, offset, end);
    slots.positions[slot] = position;
    slots.before[slot] = slots.chains[chain] ?? 0;
    slots.chains[chain] = number;
  }

  /** Doubles the slots. */
  #grow() {
    const records = this.#records();
    const { digests, length } = this.#slots;
    this.#slots = slotsOf(2 * length);
    this.#count = this.#oldest - 1;
    for (const { offset, position } of records)
      this.#insert(digests, offset, position);
  }

  #chainOf(digests: Buffer, offset: number) {
    let hashed = 0;
    for (let index = 0; index < digestBytes; index += 4)
      hashed = Math.imul(hashed + digests.readInt32LE(offset + index), factor);

    // The upper bits of a product depend on all bits of its factors.
    return (hashed >>> 8) % this.#slots.length;
  }

  /** Whether a slot has the key of the scratch space, at offset 0, or the plant, after it. */
  #has(slot: number, offset: number) {
    const start = slot * 2 * digestBytes + offset;
    const { digests } = this.#slots;
    const order = this.#digests.compare(
      digests,
      start,
      start + digestBytes,
      offset,
      offset + digestBytes
    );
    return order === 0;
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

const writeKey = (digests: Buffer, key: string) =>
  digests.write(key, "base64url");

/** Takes the digest as a string: as a Buffer from `hash`, it would cost three times as much. */
const writePlant = (digests: Buffer, plant: string | Buffer) =>
  digests.write(
    hash("sha256", plant, "binary"),
    digestBytes,
    digestBytes,
    "latin1"
  );
