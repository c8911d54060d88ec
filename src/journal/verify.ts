/** Reads a whole journal and reports every damaged spot; opening looks at its end only. */
import { decodeHeader, decodeRecord, headerBytesMax } from "./record.ts";
import type { JournalRecord } from "./record.ts";
import { examine } from "./recover.ts";
import type { Bytes } from "./recover.ts";

export interface Spot {
  readonly offset: number;
  /** Counted from 1, the header's. */
  readonly line: number;
  readonly reason: string;
}

export interface Report {
  readonly bytes: number;
  readonly records: number;
  /** The first and the last record's time of writing. */
  readonly first: string | undefined;
  readonly last: string | undefined;
  readonly idMin: bigint | undefined;
  readonly idMax: bigint | undefined;
  /** In the file's order; the first `spotsMax` of them. */
  readonly spots: readonly Spot[];
  readonly spotsTotal: number;
}

export const spotsMax = 1_000;
const blockBytes = 1024 * 1024;
const lineFeed = 0x0a;

/**
 * Reads the file once, from its beginning, in memory that does not grow with it.
 * @param isLive a server is writing: what follows the last LF is not looked at
 * @param onProgress told now and then how many bytes were read
 */
export function verifyJournal(
  file: Bytes, isLive: boolean, onProgress: (bytes: number) => void,
): Report {
  const bytes = file.size();
  const check = new Check();
  let rest: Buffer = Buffer.alloc(0);
  for (let offset = 0; offset < bytes;) {
    const block = file.read(offset, Math.min(blockBytes, bytes - offset));
    if (block.length === 0) break;
    rest = rest.length === 0 ? block : Buffer.concat([rest, block]);
    offset += block.length;
    let at = 0;
    for (let lf = rest.indexOf(lineFeed); lf >= 0; lf = rest.indexOf(lineFeed, at)) {
      check.line(rest.subarray(at, lf));
      at = lf + 1;
    }
    rest = rest.subarray(at);
    onProgress(offset);
  }
  if (rest.length > 0 && !isLive) check.unfinished(rest, examine(file).kind !== "damaged");
  return { ...check.report(), bytes };
}

class Check {
  #offset = 0;
  #lines = 0;
  #records = 0;
  #seq = 0;
  #synced = 0;
  #isAfterDamage = false;
  #first: JournalRecord | undefined;
  #last: JournalRecord | undefined;
  #idMin: bigint | undefined;
  #idMax: bigint | undefined;
  readonly #spots: Spot[] = [];
  #spotsTotal = 0;

  line(bytes: Buffer): void {
    this.#lines++;
    if (this.#lines === 1) {
      const isHeader = bytes.length <= headerBytesMax && decodeHeader(bytes) !== undefined;
      if (!isHeader) this.#report("expected the header of a plant-store journal, version 1");
    } else {
      this.#record(bytes);
    }
    this.#offset += bytes.length + 1;
  }

  unfinished(bytes: Buffer, isMendable: boolean): void {
    this.#lines++;
    const help = isMendable ? "opening mends it" : "opening refuses it";
    this.#report(`the last ${bytes.length} bytes have no LF: ${help}`);
  }

  report(): Omit<Report, "bytes"> {
    return {
      records: this.#records, first: this.#first?.at, last: this.#last?.at,
      idMin: this.#idMin, idMax: this.#idMax, spots: this.#spots, spotsTotal: this.#spotsTotal,
    };
  }

  #record(bytes: Buffer): void {
    const record = decodeRecord(bytes);
    if (typeof record === "string") {
      this.#report(record === "foreign" ? "a good checksum over what is no record"
        : bytes.length === 0 ? "a blank line" : "the checksum is wrong");
      this.#isAfterDamage = true;
      return;
    }
    const { seq, synced, plant: { id } } = record;
    const isNext = this.#isAfterDamage ? seq > this.#seq : seq === this.#seq + 1;
    const isSynced = synced === this.#offset || (synced === this.#synced && seq > 1)
      || (this.#isAfterDamage && synced > this.#synced && synced < this.#offset);
    if (!isNext) this.#report(`expected seq ${this.#seq + 1}, found ${seq}`);
    else if (!isSynced) this.#report(`synced ${synced} is where no write begins`);
    this.#isAfterDamage = false;
    this.#seq = seq;
    this.#synced = synced;
    this.#records++;
    this.#first ??= record;
    this.#last = record;
    if (this.#idMin === undefined || id < this.#idMin) this.#idMin = id;
    if (this.#idMax === undefined || id > this.#idMax) this.#idMax = id;
  }

  #report(reason: string): void {
    this.#spotsTotal++;
    const { length } = this.#spots;
    if (length < spotsMax) this.#spots.push({ offset: this.#offset, line: this.#lines, reason });
  }
}
