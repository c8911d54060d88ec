/** Routes method and path to the one operation. */
import { ApiError, must } from "./errors.ts";

export const plantsPath = "/plants";

/**
 * Checks that a request is a POST to the expected path.
 *
 * @param path as sent; compared byte for byte: `/plants/` and `/Plants` are other paths
 * @throws ApiError 404 or 405; 405 for every CONNECT
 */
export function checkRoute(
  method: string | undefined,
  path: string,
  expected: string
) {
  must(method !== "CONNECT", "connect");
  if (path !== expected) throw new ApiError("path", `expected ${expected}`);
  must(method === "POST", "method");
}
