/** What waits for the journal's next write, and what is in it: bounded in records and bytes. */
import type { Limits } from "../config.ts";
import { StoreError } from "../plant.ts";

interface Waiting {
  readonly plant: string; readonly bytes: number;
  readonly resolve: () => void; readonly reject: (error: StoreError) => void;
}

export class Queue {
  /** What the write in flight holds. */
  batch: readonly Waiting[] = [];
  readonly #limits: Limits;
  #waiting: Waiting[] = [];
  #bytes = 0; // of batch and waiting together
  constructor(limits: Limits) { this.#limits = limits; }
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

  get length(): number { return this.#waiting.length; }
  /** Makes what waits the batch, as far as `batchBytesMax` allows, but one whatever its size.
   * @param frameBytes what a line has besides its plant, at most */
  take(frameBytes: number): void {
    let [bytes, count] = [0, 0];
    for (const waiting of this.#waiting) {
      bytes += frameBytes + waiting.bytes;
      if (count > 0 && bytes > this.#limits.batchBytesMax) break;
      count++;
    }
    this.batch = this.#waiting.splice(0, count);
  }
  /** Ends the batch, whatever came of it; `all`: and what waits. */
  settle(all = false): readonly Waiting[] {
    const ended = all ? [...this.batch, ...this.#waiting.splice(0)] : this.batch;
    this.batch = [];
    for (const { bytes } of ended) this.#bytes -= bytes;
    return ended;
  }
}
