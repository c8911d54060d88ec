/** What waits for the journal's next write, and what is in it: bounded in records and bytes. */
import type { Limits } from "../config.ts";
import { StoreError } from "../plant.ts";

export interface Waiting {
  /** Its JSON, as the record will hold it. */
  readonly plant: string;
  readonly resolve: () => void;
  readonly reject: (error: StoreError) => void;
}

export class Queue {
  /** What the write in flight holds; empty: none is. */
  batch: readonly Waiting[] = [];
  readonly #limits: Limits;
  #waiting: Waiting[] = [];
  #records = 0;
  #bytes = 0;
  #batchBytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get isEmpty(): boolean {
    return this.#records === 0;
  }

  /** @throws StoreError `busy` over the limits; one record alone is taken whatever its size */
  push(waiting: Waiting): void {
    const bytes = Buffer.byteLength(waiting.plant);
    const { queueRecordsMax, queueBytesMax } = this.#limits;
    const isOver = this.#records >= queueRecordsMax || this.#bytes + bytes > queueBytesMax;
    if (isOver && !this.isEmpty) throw new StoreError("busy", "too many records wait");
    this.#records++;
    this.#bytes += bytes;
    this.#waiting.push(waiting);
  }

  /** Makes what waits the batch, up to `batchBytesMax`; false: nothing waits. */
  take(): boolean {
    let bytes = 0;
    let count = 0;
    for (const { plant } of this.#waiting) {
      const more = Buffer.byteLength(plant);
      if (count > 0 && bytes + more > this.#limits.batchBytesMax) break;
      bytes += more;
      count++;
    }
    this.batch = this.#waiting.splice(0, count);
    this.#batchBytes = bytes;
    return count > 0;
  }

  /** Ends the batch, whatever came of it, and returns it. */
  settle(): readonly Waiting[] {
    const { batch } = this;
    this.#records -= batch.length;
    this.#bytes -= this.#batchBytes;
    this.#batchBytes = 0;
    this.batch = [];
    return batch;
  }

  /** Ends everything, and returns it. */
  clear(): readonly Waiting[] {
    const all = [...this.batch, ...this.#waiting];
    this.batch = this.#waiting = [];
    this.#records = this.#bytes = this.#batchBytes = 0;
    return all;
  }
}
