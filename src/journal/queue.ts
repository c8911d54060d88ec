/** The queue of appends: those that wait for a write or are in one, bounded in number and bytes. */
import { ok as assert } from "node:assert";
import type { Limits } from "../config.ts";
import { StoreError, type Outcome, type Receipt } from "../store.ts";
import type { KeyWindow } from "./keys.ts";
import { frameBytesMax } from "./record.ts";

interface Append {
  /** The NewPlant's JSON. */
  readonly json: string;
  readonly key: string | undefined;

  /** The bytes of the JSON. */
  readonly bytes: number;

  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: StoreError) => void;
}

export class Queue {
  /** The appends of the write in flight. */
  batch: readonly Append[] = [];

  /** The appends for later writes. */
  readonly waiting: Append[] = [];

  /** Why no more appends are accepted; undefined while they are. */
  refusal: StoreError | undefined;

  #bytes = 0;

  /** The appends that are not settled, and the bytes of their JSON. */
  get size() {
    const records = this.batch.length + this.waiting.length;
    return { records, bytes: this.#bytes } as const;
  }

  /**
   * Queues a NewPlant's JSON; accepts any size if nothing else is queued. Resolves once it is on
   * stable storage.
   *
   * @throws StoreError `refusal` once there is one; `busy` over the limits
   */
  push(
    json: string,
    { queueRecordsMax, queueBytesMax }: Limits,
    key?: string
  ): Promise<Outcome> {
    if (this.refusal) throw this.refusal;
    const bytes = Buffer.byteLength(json);

    // The batch in flight counts, too: a disk that stalls must not fill the memory.
    const { records } = this.size;
    if (
      records >= queueRecordsMax ||
      (records > 0 && this.#bytes + bytes > queueBytesMax)
    )
      throw new StoreError("busy", "too many records wait");
    this.#bytes += bytes;
    return new Promise((resolve, reject) => {
      this.waiting.push({ json, key, bytes, resolve, reject });
    });
  }

  /** Moves waiting appends to the batch, up to `batchBytesMax`, but at least one. */
  take({ batchBytesMax }: Limits) {
    assert(this.batch.length === 0, "every append of a batch settles");
    let bytes = 0;
    let count = 0;
    for (const append of this.waiting) {
      bytes += frameBytesMax + append.bytes;
      if (count > 0 && bytes > batchBytesMax) break;
      count++;
    }
    this.batch = this.waiting.splice(0, count);
  }

  /**
   * Settles the batch.
   *
   * @param result the receipt of its first record, or why the batch is not acknowledged
   */
  settle(result: Required<Receipt> | StoreError) {
    for (const [index, append] of this.batch.entries()) {
      assert(this.#bytes >= append.bytes, "queued bytes are never negative");
      this.#settle(
        append,
        result instanceof StoreError
          ? result
          : { receipt: { seq: result.seq + index, file: result.file } }
      );
    }
    this.batch = [];
  }

  /** Settles the waiting appends whose keys are remembered since another file was opened. */
  settleRemembered(keys: KeyWindow) {
    for (const append of this.waiting.splice(0)) {
      const outcome = keys.find(append.key, append.json);
      if (outcome) this.#settle(append, outcome);
      else this.waiting.push(append);
    }
  }

  /** Accepts no more, and settles all that are left with this error, whatever has failed. */
  fail(error: StoreError) {
    this.refusal = error;
    const left = [...this.batch, ...this.waiting.splice(0)];
    this.batch = [];
    for (const append of left) this.#settle(append, error);
  }

  #settle(
    { json, bytes, resolve, reject }: Append,
    result: Omit<Outcome, "json"> | StoreError
  ) {
    this.#bytes -= bytes;
    if (result instanceof StoreError) reject(result);
    else resolve({ json, ...result });
  }
}
