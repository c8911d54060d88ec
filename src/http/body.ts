/** Reads a bounded body. */
import { ok as assert } from "node:assert";
import type { IncomingMessage } from "node:http";
import { ApiError, must } from "./errors.ts";

/** A body that is being read. */
interface Body {
  /** The bytes that have arrived. */
  bytes: number;

  /** Ends the reading: all bodies exceed their limit, or the client has gone. */
  readonly refuse: () => void;
}

/**
 * The bytes of all bodies that are being read, within one limit.
 *
 * Beyond it the largest body is refused. So every client finds room for a body of the limit divided
 * by the number of connections.
 */
export class BodyBudget {
  readonly #bytesMax: number;
  readonly #bodies = new Set<Body>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Returns whether so many more bytes are within the limit. */
  fits(bytes: number) {
    return this.#bytes + bytes <= this.#bytesMax;
  }

  /** Counts a piece of a body. Refuses the largest bodies until the rest is within the limit. */
  add(body: Body, bytes: number) {
    this.#bodies.add(body);
    body.bytes += bytes;
    this.#bytes += bytes;

    // Refuses, on a tie, the body that asks for more. The search is linear, but rare.
    while (!this.fits(0)) {
      let largest = body;
      for (const each of this.#bodies)
        if (each.bytes > largest.bytes) largest = each;

      // Refusing a body stops counting it. Otherwise the loop would not end.
      assert(this.#bodies.has(largest), "a body was counted twice");
      largest.refuse();
    }
  }

  /** Returns why the largest body is refused. */
  refusal() {
    return new ApiError("bodies", `the limit is ${this.#bytesMax} bytes`);
  }

  /** Stops counting a body. A body that is not counted is ignored. */
  release(body: Body) {
    if (this.#bodies.delete(body)) this.#bytes -= body.bytes;
    assert(this.#bytes >= 0, "a body was counted out twice");
  }
}

/**
 * Checks that no host application has read the body: its end would never come.
 *
 * @throws ApiError 500, also after setEncoding, which turns bytes into text
 */
export function checkUnread(request: IncomingMessage) {
  const { readableDidRead, readableEnded, readableEncoding } = request;
  must(
    !readableDidRead && !readableEnded && readableEncoding === null,
    "bodyTaken"
  );
}

/**
 * Reads the body. A declared length reserves nothing: only bytes that have arrived count.
 *
 * @param done called once with the body, or with the reason why it is refused. Not called if the
 * client closes before a first byte.
 */
export function readBody(
  request: IncomingMessage,
  bodyBytesMax: number,
  budget: BodyBudget,
  done: (body: Buffer | ApiError) => void
) {
  const declaredBytes = Number(request.headers["content-length"]);
  let buffer: Buffer = nothing;
  let isDone = false;

  const finish = (result: Buffer | ApiError) => {
    if (isDone) return;
    isDone = true;
    buffer = nothing;
    budget.release(body);
    done(result);
  };
  const body: Body = {
    bytes: 0,
    refuse: () => finish(budget.refusal())
  };
  const end = () => finish(buffer.subarray(0, body.bytes));

  request.on("data", (chunk: Buffer) => {
    if (isDone) return;

    // Nearly every body arrives in one piece. It is complete, although node reports its end later.
    // Not counting it is safe: it is parsed before the next piece of any body arrives.
    if (chunk.length === declaredBytes && budget.fits(declaredBytes))
      return finish(chunk);
    if (body.bytes + chunk.length > bodyBytesMax)
      return finish(new ApiError("size", bodyBytesMax));

    // Releases the bytes of a client that has gone.
    if (body.bytes === 0) request.once("close", body.refuse);
    buffer = appended(buffer, body.bytes, chunk);
    budget.add(body, chunk.length);
    if (body.bytes === declaredBytes) end();
  });

  if (!(declaredBytes > 0)) request.on("end", end);

  // A host application may have paused it.
  request.resume();
}

const nothing = Buffer.alloc(0);

/** Copies pieces together as they arrive: a million chunks of one byte would take 300 MB. */
function appended(buffer: Buffer, bytes: number, chunk: Buffer) {
  const end = bytes + chunk.length;

  // Doubles the size, so that a body of many pieces is copied only a few times. The system provides
  // no memory for the part that is still unused.
  let target = buffer;
  if (end > buffer.length) {
    target = Buffer.alloc(2 * end);
    buffer.copy(target);
  }
  chunk.copy(target, bytes);
  return target;
}
