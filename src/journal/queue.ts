/** The appends that wait for a write or are in one, bounded in number and bytes. */
import { ok as assert } from "node:assert";
import type { Limits } from "../config.ts";
import { StoreError } from "../store.ts";

interface Append {
  /** The NewPlant's JSON. */
  readonly json: string;
  readonly bytes: number;
  readonly settle: (error?: StoreError) => void;
  isSettled: boolean;
}

export class Queue {
  /** The appends of the write in flight. */
  batch: readonly Append[] = [];

  /** The appends for later writes. */
  readonly waiting: Append[] = [];

  /** Why no more appends are accepted; undefined while they are. */
  refusal: StoreError | undefined;

  #records = 0;
  #bytes = 0;

  /** The appends that are not settled, and the bytes of their JSON. */
  get size() {
    return { records: this.#records, bytes: this.#bytes };
  }

  /**
   * Queues a NewPlant's JSON; accepts any size if nothing else is queued.
   *
   * @param settle called once, with an error if the plant is not on stable storage, or may not be
   * @throws StoreError `busy` over the limits; `refusal` once there is one
   */
  push(
    json: string,
    { queueRecordsMax, queueBytesMax }: Limits,
    settle: (error?: StoreError) => void
  ): void {
    if (this.refusal) throw this.refusal;
    const bytes = Buffer.byteLength(json);

    // The batch in flight counts, too: a disk that stalls must not fill the memory.
    if (
      this.#records >= queueRecordsMax ||
      (this.#records > 0 && this.#bytes + bytes > queueBytesMax)
    ) {
      throw new StoreError("busy", "too many records wait");
    }

    this.#records++;
    this.#bytes += bytes;
    this.waiting.push({ json, bytes, settle, isSettled: false });
  }

  /**
   * Moves waiting appends to the batch, up to `batchBytesMax`, but at least one.
   *
   * @param frameBytes the most bytes of a line besides its plant
   */
  take(frameBytes: number, { batchBytesMax }: Limits): void {
    assert(this.batch.length === 0, "every append of a batch settles");
    let bytes = 0;
    let count = 0;
    for (const append of this.waiting) {
      bytes += frameBytes + append.bytes;
      if (count > 0 && bytes > batchBytesMax) break;
      count++;
    }
    this.batch = this.waiting.splice(0, count);
  }

  /** Settles the batch; with an error if it is not on stable storage, or may not be. */
  settle(error?: StoreError): void {
    for (const append of this.batch) {
      assert(!append.isSettled, "an append settles only once");
      assert(this.#bytes >= append.bytes, "queued bytes are never negative");
      this.#settle(append, error);
    }
    this.batch = [];
  }

  /** Accepts no more, and settles all that are left with this error, whatever has failed. */
  fail(error: StoreError): void {
    this.refusal = error;
    const left = [...this.batch, ...this.waiting.splice(0)];
    this.batch = [];
    for (const append of left)
      if (!append.isSettled) this.#settle(append, error);
  }

  #settle(append: Append, error?: StoreError): void {
    append.isSettled = true;
    this.#records--;
    this.#bytes -= append.bytes;
    try {
      append.settle(error);
    } catch (thrown) {
      // An error of the caller's function is the caller's: it does not fail the journal.
      queueMicrotask(() => {
        throw thrown;
      });
    }
  }
}
