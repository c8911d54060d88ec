/** What waits for the journal's next write, and what is in it: bounded in records and bytes. */
import type { Limits } from "../config.ts";
import { checkPlant, StoreError, type NewPlant } from "../plant.ts";
import { plantText } from "./record.ts";

interface Waiting {
  /** Its JSON, encoded once. */
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
  /** Why no more is taken; undefined while it is. */
  #refusal: StoreError | undefined;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** How many wait. */
  get length(): number {
    return this.#waiting.length;
  }

  /** Of batch and waiting together. */
  get held() {
    return { records: this.#waiting.length + this.batch.length, bytes: this.#bytes };
  }

  get isEnded(): boolean {
    return this.#refusal !== undefined;
  }

  /**
   * Takes a plant, one alone whatever its size; one of the two is called, once.
   *
   * @throws StoreError for what is no plant, over the limits, and when it has ended
   */
  push(given: NewPlant, resolve: () => void, reject: (error: StoreError) => void): void {
    if (this.#refusal) throw this.#refusal;
    const plant = plantText(checkPlant(given));
    const bytes = Buffer.byteLength(plant);

    // What is in flight counts, too: a disk that stalls must not fill the memory.
    const records = this.#waiting.length + this.batch.length;
    const { queueRecordsMax, queueBytesMax } = this.#limits;
    if (records >= queueRecordsMax || (records > 0 && this.#bytes + bytes > queueBytesMax)) {
      throw new StoreError("busy", "too many records wait");
    }

    this.#bytes += bytes;
    this.#waiting.push({ plant, bytes, resolve, reject });
  }

  /**
   * Makes what waits the batch, as far as `batchBytesMax` allows, but one whatever its size.
   *
   * @param frameBytes what a line has besides its plant, at most
   */
  take(frameBytes: number): void {
    let bytes = 0;
    let count = 0;
    for (const waiting of this.#waiting) {
      bytes += frameBytes + waiting.bytes;
      if (count > 0 && bytes > this.#limits.batchBytesMax) break;
      count++;
    }
    this.batch = this.#waiting.splice(0, count);
  }

  /** The batch is on stable storage. */
  acknowledge(): void {
    for (const { resolve } of this.#endBatch()) resolve();
  }

  /** The batch is not on stable storage, or nobody knows. */
  reject(error: StoreError): void {
    for (const { reject } of this.#endBatch()) reject(error);
  }

  /** Takes no more; what it has is still to be written. */
  end(refusal: StoreError): void {
    this.#refusal ??= refusal;
  }

  /** Takes no more, and rejects all that it has. */
  fail(error: StoreError): void {
    this.#refusal = error;
    this.batch = [...this.batch, ...this.#waiting.splice(0)];
    this.reject(error);
  }

  #endBatch(): readonly Waiting[] {
    const ended = this.batch;
    this.batch = [];
    for (const { bytes } of ended) this.#bytes -= bytes;
    return ended;
  }
}
