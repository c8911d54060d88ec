/** The member names of large objects: an exact set that takes few bytes. */

/** Returns the characters that a string stands for in a text, where it has its quotes. */
export const stringOf = (text: string): string =>
  text.includes("\\") ? JSON.parse(text) : text.slice(1, -1);

/** Below 2^26, so that the product of two remainders is exact in a number. */
const prime = 67_108_859;

/**
 * A hash table of the member names of a text, with a chain of names for each bucket.
 *
 * A name is its position in the text. Two names are at least five characters apart, so a quarter
 * of the position is an index that no other name has. All together takes 16 bytes for each 4
 * characters of the text, where a Set of strings takes about 100 for each 8.
 *
 * The hash is a polynomial with a base that is random for each text: no client can choose names
 * that share a bucket. Names in one bucket are compared, so the set is exact.
 */
export class NameTable {
  readonly #text: string;
  readonly #base = 1 + Math.floor((prime - 1) * Math.random());

  /** The newest name of each bucket; 0 is none, for no text begins with a name. */
  readonly #newest: Int32Array;

  /** At a name's position: the older name of its bucket, its object, the end of its string. */
  readonly #links: Int32Array;

  constructor(text: string) {
    this.#text = text;
    this.#newest = new Int32Array((text.length >> 2) + 1);
    this.#links = new Int32Array(text.length);
  }

  /** Adds a name between two positions, and returns whether its object did not have it. */
  add(name: string, start: number, end: number, object: number): boolean {
    let hash = object;
    for (let index = 0; index < name.length; index++) {
      hash = hash * this.#base + name.charCodeAt(index);
      hash -= prime * Math.floor(hash / prime);
    }
    const bucket = hash % this.#newest.length;
    const newest = this.#newest[bucket] ?? 0;

    // The names of earlier objects are older than all of this one: there the search ends.
    let other = newest;
    for (; other > object; other = this.#links[other] ?? 0) {
      if (this.#links[other + 1] !== object) continue;
      const text = this.#text.slice(other, this.#links[other + 2]);
      if (stringOf(text) === name) return false;
    }

    this.#newest[bucket] = start;
    this.#links[start] = newest;
    this.#links[start + 1] = object;
    this.#links[start + 2] = end;
    return true;
  }
}
