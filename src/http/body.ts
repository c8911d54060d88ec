/** A bounded read of the body, and the discarding of one after an early answer. */
import type { IncomingMessage } from "node:http";
import type { Limits } from "../config.ts";
import { ApiError } from "./errors.ts";

/** Reads the body. A declared length reserves nothing: what counts is what has arrived.
 * @param inFlight the bytes of all bodies that are being read: one for a service
 * @param done called once; never when the client goes away before the body's end */
export function readBody(
  request: IncomingMessage, limits: Limits, inFlight: { bytes: number },
  done: (body: Buffer | ApiError) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length;
    inFlight.bytes += chunk.length;
    chunks.push(chunk);
    if (bytes > limits.bodyBytesMax) {
      finish(new ApiError("size", `The body must not exceed ${limits.bodyBytesMax} bytes.`));
    } else if (inFlight.bytes > limits.bodiesBytesMax) {
      finish(new ApiError("bodies", "Too much is being sent at once; nothing was stored."));
    }
  };
  const onEnd = (): void =>
    finish(chunks.length > 1 ? Buffer.concat(chunks, bytes) : chunks[0] ?? Buffer.alloc(0));
  const release = (): void => {
    inFlight.bytes -= bytes;
    request.off("data", onData).off("end", onEnd).off("close", release);
  };
  const finish = (body: Buffer | ApiError): void => {
    release();
    done(body);
  };
  request.on("data", onData).on("end", onEnd).on("close", release);
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
