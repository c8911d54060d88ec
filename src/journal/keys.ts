/**
 * The window of keys: which keys the journal's newest records have, and a digest of each plant.
 *
 * A record is remembered while its line begins within the window, and the newest record always.
 * Positions count the journal's bytes over all files that the process has written to.
 */
import { hash, randomBytes } from "node:crypto";
import { blockBytes, find, linesOf, type Bytes, type Line } from "./lines.ts";
import { headerBytes, lineFeed, placeholderCrc } from "./record.ts";

export class KeyWindow {
  readonly #bytesMax: number;

  /** The oldest first. A table is dropped once none of its records is remembered. */
  readonly #tables: Table[] = [];

  /** Odd factors that no client knows, so that chosen keys do not share their slots. */
  readonly #factors = wordsOf(randomBytes(16)).map((word) => word | 1);

  /** The position of the journal's end, and that of its newest record. */
  #end = 0;
  #newest = 0;

  /** @param bytesMax the length of the window; 0 remembers nothing */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Returns whether a remembered record has this key, and then whether it has the same plant. */
  find(key: string, plant: string): "new" | "same plant" | "other plant" {
    const words = wordsOf(Buffer.from(key, "base64url"));
    const hashed = this.#hash(words);
    for (const table of this.#tables.toReversed()) {
      const slot = table.slotOf(words, hashed);
      const position = table.positions[slot] ?? 0;
      if (position === 0) continue;
      if (position < this.#start) return "new";
      return table.hasPlant(slot, digestOf(plant))
        ? "same plant"
        : "other plant";
    }
    return "new";
  }

  /** Moves the end over bytes that hold no record with a key. */
  skip(bytes: number): void {
    this.#newest = this.#end;
    this.#end += bytes;
    while (this.#tables[0] && this.#tables[0].newest < this.#start)
      this.#tables.shift();
  }

  /** Moves the end over a record with a key, and remembers it. */
  add(key: string, plant: string | Buffer, lineBytes: number): void {
    const position = this.#end;
    this.skip(lineBytes);
    const words = wordsOf(Buffer.from(key, "base64url"));
    this.#table().set(words, this.#hash(words), digestOf(plant), position);
  }

  /**
   * Moves the end over a file whose end is clean. Reads the window, or the last line if that is
   * longer. A file without keys costs the read and a search of each block.
   */
  addFile(file: Bytes): void {
    if (this.#bytesMax === 0) return;
    const size = file.size();
    let start = this.#startIn(file, size);
    this.skip(start);
    while (start < size) {
      const block = file.read(start, Math.min(blockBytes, size - start));
      const lineEnd = block.lastIndexOf(lineFeed) + 1;
      const end =
        lineEnd > 0 ? start + lineEnd : find(file, lineFeed, start, size) + 1;

      // Within a string the quotes would be escaped.
      if (lineEnd > 0 && !block.includes(',"key":"')) this.skip(end - start);
      else for (const line of linesOf(file, start, end)) this.#addLine(line);
      start = end;
    }
  }

  /** The position from which on records are remembered. */
  get #start(): number {
    return Math.min(this.#end - this.#bytesMax, this.#newest);
  }

  /** Returns the offset of the first line that begins within the window, or of the last line. */
  #startIn(file: Bytes, size: number): number {
    for (let bytes = this.#bytesMax; size - bytes > headerBytes; bytes *= 4) {
      const start = find(file, lineFeed, size - bytes - 1, size) + 1;
      if (start < size) return start;
    }
    return headerBytes;
  }

  #addLine({ offset, end, text, record }: Line): void {
    const key = typeof record === "object" ? record.key : undefined;
    if (key === undefined || !text) return this.skip(end - offset);
    const member = ',"plant":';
    const plant = text.subarray(
      text.indexOf(member) + member.length,
      -placeholderCrc.length
    );
    this.add(key, plant, end - offset);
  }

  /** Returns the newest table; begins one, of about a fifth of all slots, if that is full. */
  #table(): Table {
    let table = this.#tables.at(-1);
    if (table === undefined || table.isFull) {
      const slots = this.#tables.reduce((sum, each) => sum + each.slots, 0);
      table = new Table(Math.max(1024, 2 ** Math.floor(Math.log2(slots / 4))));
      this.#tables.push(table);
    }
    return table;
  }

  #hash(words: Words): number {
    const sum = words.reduce(
      (all, word, index) => all + Math.imul(word, this.#factors[index] ?? 0),
      0
    );

    // The upper bits of a product depend on all bits of its factors.
    return (sum >>> 8) ^ (sum >>> 24);
  }
}

/** Four 32-bit words of a key, or of a digest. */
type Words = readonly number[];

const wordsOf = (bytes: Buffer): Words =>
  [0, 4, 8, 12].map((index) => bytes.readInt32LE(index));

const digestOf = (plant: string | Buffer): Words =>
  wordsOf(hash("sha256", plant, "buffer"));

/** An open-addressing hash table, packed: 40 bytes a slot, whatever a string would take. */
class Table {
  /** A power of two. */
  readonly slots: number;

  /** The position of each slot's record, none of which is 0: there the slot is empty. */
  readonly positions: Float64Array;

  /** Four words of the key and four of the plant's digest for each slot. */
  readonly #words: Int32Array;

  /** The position of the newest record. */
  newest = 0;
  #count = 0;

  constructor(slots: number) {
    this.slots = slots;
    this.positions = new Float64Array(slots);
    this.#words = new Int32Array(8 * slots);
  }

  get isFull(): boolean {
    return this.#count >= 0.75 * this.slots;
  }

  /** Returns the slot of a key; if no slot has it, the empty one where it belongs. */
  slotOf(key: Words, hashed: number): number {
    let slot = hashed % this.slots;
    while (this.positions[slot] !== 0 && !this.#has(8 * slot, key))
      slot = (slot + 1) % this.slots;
    return slot;
  }

  hasPlant(slot: number, digest: Words): boolean {
    return this.#has(8 * slot + 4, digest);
  }

  /** Sets the record of a key: of several, the newest counts. */
  set(key: Words, hashed: number, digest: Words, position: number): void {
    const slot = this.slotOf(key, hashed);
    if (this.positions[slot] === 0) this.#count++;
    this.positions[slot] = position;
    this.#words.set([...key, ...digest], 8 * slot);
    this.newest = position;
  }

  #has(index: number, words: Words): boolean {
    return words.every((word, offset) => this.#words[index + offset] === word);
  }
}
