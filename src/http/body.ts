/** A bounded read of the body, and the discarding of one after an early answer. */
import type { IncomingMessage } from "node:http";
import type { Limits } from "../config.ts";
import { ApiError } from "./errors.ts";

/** Bytes of bodies that are being read: of one connection, or of all. */
export interface InFlight { bodyBytes: number }

/** Reads the body. A declared length reserves nothing: what counts is what has arrived.
 * @param own the connection's bytes, which the caller releases where it ends before the body
 * @param done called once; never when the client goes away before the body's end */
export function readBody(
  request: IncomingMessage, limits: Limits, own: InFlight, all: InFlight,
  done: (body: Buffer | ApiError) => void,
): void {
  let body: Buffer | undefined;
  let bytes = 0;
  let isDone = false;
  const finish = (result: Buffer | ApiError): void => {
    if (isDone) return;
    isDone = true;
    body = undefined;
    all.bodyBytes -= bytes;
    own.bodyBytes -= bytes;
    done(result);
  };
  request.on("data", (chunk: Buffer) => {
    if (isDone) return;
    const end = bytes + chunk.length;
    // Copied together at once: a million chunks of one byte would weigh as much as 300 MB.
    if (body === undefined) body = chunk;
    else {
      if (end > body.length) body = Buffer.concat([body.subarray(0, bytes)], 2 * end);
      chunk.copy(body, bytes);
    }
    bytes = end;
    all.bodyBytes += chunk.length;
    own.bodyBytes += chunk.length;
    if (bytes > limits.bodyBytesMax) {
      finish(new ApiError("size", `The body must not exceed ${limits.bodyBytesMax} bytes.`));
    } else if (all.bodyBytes > limits.bodiesBytesMax) {
      finish(new ApiError("bodies", "Too much is being sent at once; nothing was stored."));
    }
  });
  request.on("end", () => finish(body?.subarray(0, bytes) ?? Buffer.alloc(0)));
}
/** Reads on and discards after an early answer, so that a client that is still sending gets to
 * see it, within `discardBytesMax` and `discardMillis`: resolves to whether the body ended so. */
export function discardBody(request: IncomingMessage, limits: Limits): Promise<boolean> {
  return new Promise((resolve) => {
    let bytes = 0;
    const finish = (isWhole: boolean): void => {
      clearTimeout(timer);
      request.off("data", onData).pause();
      resolve(isWhole);
    };
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes > limits.discardBytesMax) finish(false);
    };
    const timer = setTimeout(finish, limits.discardMillis, false);
    request.on("data", onData).once("end", () => finish(true)).once("close", () => finish(false));
  });
}
