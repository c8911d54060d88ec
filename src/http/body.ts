/** A bounded read of the body, and the discarding of one after an early answer. */
import type { IncomingMessage } from "node:http";
import type { Limits } from "../config.ts";
import { ApiError, must } from "./errors.ts";

/** What has come of a body that is still being read. */
interface HeldBody {
  bytes: number;

  /** Gives it up: there is no room, or nobody who sends it. */
  readonly refuse: () => void;
}

/**
 * All bodies that are being read.
 *
 * Together they stay within a limit, and who holds most of it pays for who comes. So a share of
 * it, the limit by the number of connections, is always free for each.
 */
export class BodyBudget {
  readonly #bytesMax: number;
  readonly #bodies = new Set<HeldBody>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= this.#bytesMax;
  }

  /** Counts a piece that has come; whoever holds most is refused until all are within the limit. */
  add(body: HeldBody, bytes: number): void {
    this.#bodies.add(body);
    body.bytes += bytes;
    this.#bytes += bytes;

    // Of equals who asks for more. All are looked at, but only where one of them has to go.
    while (!this.hasRoom(0)) {
      const all = [...this.#bodies];
      all
        .reduce((most, each) => (each.bytes > most.bytes ? each : most), body)
        .refuse();
    }
  }

  release(body: HeldBody): void {
    if (this.#bodies.delete(body)) this.#bytes -= body.bytes;
  }
}

/**
 * Refuses what a host application has read: its end would never come.
 *
 * @throws ApiError 500, also where an encoding was set, which makes text of the bytes
 */
export function checkUnread(request: IncomingMessage): void {
  const { readableDidRead, readableEnded, readableEncoding } = request;
  must(
    !readableDidRead && !readableEnded && readableEncoding === null,
    "bodyTaken",
    "The body was read before: the plants' handler must come first."
  );
}

/** Called once; where the client goes away before the body's end, with an error, or never. */
type Done = (body: Buffer | ApiError) => void;

/**
 * Reads the body. A declared length reserves nothing: what counts is what has arrived.
 */
export function readBody(
  request: IncomingMessage,
  limits: Limits,
  all: BodyBudget,
  done: Done
) {
  const declaredBytes = Number(request.headers["content-length"]);
  let body: Buffer = nothing;
  let isDone = false;

  const refuse = (): void =>
    finish(
      new ApiError(
        "bodies",
        "Too much is being sent at once; nothing was stored."
      )
    );
  const held: HeldBody = { bytes: 0, refuse };

  const finish = (result: Buffer | ApiError): void => {
    if (isDone) return;
    isDone = true;
    body = nothing;
    all.release(held);
    done(result);
  };

  const end = (): void => finish(body.subarray(0, held.bytes));

  request.on("data", (chunk: Buffer) => {
    if (isDone) return;

    // Nearly every body comes in one piece, and is whole then: where there is room it is not
    // counted, and its end, which node tells later, is not waited for.
    if (chunk.length === declaredBytes && all.hasRoom(declaredBytes))
      return finish(chunk);
    if (held.bytes + chunk.length > limits.bodyBytesMax) {
      return finish(
        new ApiError(
          "size",
          `The body must not exceed ${limits.bodyBytesMax} bytes.`
        )
      );
    }

    // Nobody waits for the rest of it when its client has gone.
    if (held.bytes === 0) request.once("close", refuse);
    body = held.bytes === 0 ? chunk : joined(body, held.bytes, chunk);
    all.add(held, chunk.length);
    if (held.bytes === declaredBytes) end();
  });

  if (!(declaredBytes > 0)) request.on("end", end);

  // Where a host application has paused it.
  request.resume();
}

const nothing = Buffer.alloc(0);

/** Pieces are copied together at once: a million chunks of one byte would weigh 300 MB. */
function joined(body: Buffer, bytes: number, chunk: Buffer): Buffer {
  const end = bytes + chunk.length;

  // Twice the room, so that a body is copied a few times, however many pieces it has.
  const roomy =
    end > body.length
      ? Buffer.concat([body.subarray(0, bytes)], 2 * end)
      : body;
  chunk.copy(roomy, bytes);
  return roomy;
}

/**
 * Reads on and discards after an early answer, so that a client that is still sending gets to see
 * it; `giveUp` is called over `discardBytesMax` or `discardMillis`.
 */
export function discardBody(
  request: IncomingMessage,
  limits: Limits,
  giveUp: () => void
): void {
  const timer = setTimeout(giveUp, limits.discardMillis);
  const stop = (): void => clearTimeout(timer);
  request.once("end", stop);
  request.once("close", stop);

  let bytes = 0;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limits.discardBytesMax) giveUp();
  });

  // Where a host application has paused it.
  request.resume();
}
