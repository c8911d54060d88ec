/** What waits for the journal's next write, and what is in it: bounded in records and bytes. */
import type { Limits } from "../config.ts";
import { StoreError } from "../plant.ts";

interface Waiting {
  readonly plant: string;
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: StoreError) => void;
}

export class Queue {
  /** What the write in flight holds. */
  batch: readonly Waiting[] = [];
  readonly #limits: Limits;
  #waiting: Waiting[] = [];
  /** Of batch and waiting together. */
  #bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Takes a plant's JSON, one alone whatever its size; throws StoreError over the limits. */
  push(plant: string, resolve: () => void, reject: (error: StoreError) => void): void {
    const bytes = Buffer.byteLength(plant);
    const records = this.#waiting.length + this.batch.length;
    const { queueRecordsMax, queueBytesMax } = this.#limits;
    if (records >= queueRecordsMax || (records > 0 && this.#bytes + bytes > queueBytesMax)) {
      throw new StoreError("busy", "too many records wait");
    }
    this.#bytes += bytes;
    this.#waiting.push({ plant, bytes, resolve, reject });
  }

  /** Makes what waits the batch, up to `batchBytesMax`; false: nothing waits. */
  take(): boolean {
    let bytes = 0;
    const end = this.#waiting.findIndex((each, index) => {
      bytes += each.bytes;
      return index > 0 && bytes > this.#limits.batchBytesMax;
    });
    this.batch = this.#waiting.splice(0, end < 0 ? this.#waiting.length : end);
    return this.batch.length > 0;
  }

  /** Ends the batch, whatever came of it; `all`: and what waits. */
  settle(all = false): readonly Waiting[] {
    const ended = all ? [...this.batch, ...this.#waiting.splice(0)] : this.batch;
    this.batch = [];
    for (const { bytes } of ended) this.#bytes -= bytes;
    return ended;
  }
}
