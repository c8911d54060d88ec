/** The member names of large objects: an exact set that takes few bytes. */

/** Below 2^26, so that the product of two remainders is exact in a number. */
const prime = 67_108_859;

/**
 * A hash table of the member names of a text, with a chain of names for each bucket.
 *
 * A name is its position in the text. Two names are more than four characters apart, so a quarter
 * of the position is an index that no other name has. The table takes 12 bytes for each four
 * characters of the text. A Set of strings takes about 100 for a name, with eight characters.
 *
 * The hash is a polynomial with a base that is random for each text: no client can choose names
 * that share a bucket. Names that share one are compared, so the table is exact.
 */
export class NameTable {
  readonly #nameAt: (position: number) => string;
  readonly #base = 1 + Math.floor((prime - 1) * Math.random());

  /** The newest name of each bucket; 0 is none, for no text begins with a name. */
  readonly #newest: Int32Array;

  /** The older name of its bucket, and the position of its object, for each name. */
  readonly #older: Int32Array;
  readonly #objects: Int32Array;

  constructor(textLength: number, nameAt: (position: number) => string) {
    this.#nameAt = nameAt;
    const size = (textLength >> 2) + 1;
    this.#newest = new Int32Array(size);
    this.#older = new Int32Array(size);
    this.#objects = new Int32Array(size);
  }

  /** Adds the name at a position, and returns whether its object did not have it. */
  add(name: string, position: number, object: number): boolean {
    let hash = object;
    for (let index = 0; index < name.length; index++) {
      hash = hash * this.#base + name.charCodeAt(index);
      hash -= prime * Math.floor(hash / prime);
    }
    const bucket = hash % this.#newest.length;
    const newest = this.#newest[bucket] ?? 0;

    // The names of earlier objects are older than all of this one: there the search ends.
    let other = newest;
    for (; other > object; other = this.#older[other >> 2] ?? 0) {
      const isOfObject = this.#objects[other >> 2] === object;
      if (isOfObject && this.#nameAt(other) === name) return false;
    }

    this.#newest[bucket] = position;
    this.#older[position >> 2] = newest;
    this.#objects[position >> 2] = object;
    return true;
  }
}
