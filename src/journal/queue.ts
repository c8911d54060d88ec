/** What waits for the journal's next write, and what is in it: bounded in records and bytes. */
import type { Limits } from "../config.ts";
import { StoreError } from "../store.ts";

interface Waiting {
  /** Its NewPlant's JSON. */
  readonly json: string;
  readonly bytes: number;
  readonly settle: (error?: StoreError) => void;
}

export class Queue {
  /** What the write in flight holds. */
  batch: readonly Waiting[] = [];
  /** What is for the next ones. */
  readonly waiting: Waiting[] = [];
  /** Of batch and waiting together. */
  #bytes = 0;
  /** Why no more is taken, while what it has is still to be written; undefined while it is. */
  refusal: StoreError | undefined;

  /** Of batch and waiting together. */
  get held() {
    return {
      records: this.waiting.length + this.batch.length,
      bytes: this.#bytes
    };
  }

  /**
   * Takes a NewPlant's JSON, one alone whatever its size.
   *
   * @param settle called once, with the error where it is not on stable storage
   * @throws StoreError over the limits, and when it has ended
   */
  push(
    json: string,
    limits: Limits,
    settle: (error?: StoreError) => void
  ): void {
    if (this.refusal) throw this.refusal;
    const bytes = Buffer.byteLength(json);

    // What is in flight counts, too: a disk that stalls must not fill the memory.
    const records = this.waiting.length + this.batch.length;
    const { queueRecordsMax, queueBytesMax } = limits;
    if (
      records >= queueRecordsMax ||
      (records > 0 && this.#bytes + bytes > queueBytesMax)
    ) {
      throw new StoreError("busy", "too many records wait");
    }

    this.#bytes += bytes;
    this.waiting.push({ json, bytes, settle });
  }

  /**
   * Makes what waits the batch, as far as `batchBytesMax` allows, but one whatever its size.
   *
   * @param frameBytes what a line has besides its plant, at most
   */
  take(frameBytes: number, { batchBytesMax }: Limits): void {
    let bytes = 0;
    let count = 0;
    for (const waiting of this.waiting) {
      bytes += frameBytes + waiting.bytes;
      if (count > 0 && bytes > batchBytesMax) break;
      count++;
    }
    this.batch = this.waiting.splice(0, count);
  }

  /** @param error where the batch is not on stable storage, or nobody knows */
  settle(error?: StoreError): void {
    const ended = this.batch;
    this.batch = [];
    for (const { bytes, settle } of ended) {
      this.#bytes -= bytes;
      try {
        settle(error);
      } catch (thrown) {
        // What a caller throws is its own affair, and no fault of the journal.
        queueMicrotask(() => {
          throw thrown;
        });
      }
    }
  }

  /** Takes no more, and rejects all that it has. */
  fail(error: StoreError): void {
    this.refusal = error;
    this.batch = [...this.batch, ...this.waiting.splice(0)];
    this.settle(error);
  }
}
