/** The member names of a text's objects: an exact set that takes few bytes. */

/** Below 2^26, so that the product of two remainders is exact in a number. */
const prime = 67_108_859;

/**
 * A hash table of the member names of a text. A bucket is a chain of names.
 *
 * A name is its position in the text. Two names are at least four characters apart, so a quarter
 * of the position is an index that no other name has. The table takes 3 bytes for each character of
 * the text. A Set of strings takes up to 100 bytes for a name, which may have eight characters
 * only.
 *
 * The hash of a name is a polynomial of its characters. Its base is random for each text, so a
 * client cannot know which names share a bucket, and the time is linear. The result does not
 * depend on the hash: names that share a bucket are compared.
 */
export class NameTable {
  readonly #nameAt: (position: number) => string;
  readonly #base = 1 + Math.floor((prime - 1) * Math.random());

  /** The newest name of each bucket; 0 means none, for no text begins with a name. */
  readonly #newest: Int32Array;

  /** For each name: the older name of its bucket, and the position of its object. */
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
  add(name: string, position: number, object: number) {
    // Never 0, or names of any number of U+0000 would share a bucket.
    let hash = object + 1;
    for (let index = 0; index < name.length; index++) {
      hash = hash * this.#base + name.charCodeAt(index);
      hash -= prime * Math.floor(hash / prime);
    }
    const bucket = hash % this.#newest.length;
    const newest = this.#newest[bucket] ?? 0;

    // The search ends at the names of objects that began earlier: those of this one are newer.
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
