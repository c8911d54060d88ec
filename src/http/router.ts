/** Method and path to the one operation. */
import { must } from "./errors.ts";

export const plantsPath = "/plants";
export const plantsMethod = "POST";

/**
 * Lets POST on the wanted path through.
 *
 * @param path compared as sent, byte for byte: `/plants/` and `/Plants` are other paths
 * @throws ApiError 404 before 405: a path that is not there allows no method
 */
export function checkRoute(
  method: string | undefined,
  path: string,
  wanted: string
): void {
  must(
    path === wanted,
    "path",
    "There is nothing at this path: expected %.",
    wanted
  );
  must(
    method === plantsMethod,
    "method",
    `The method must be ${plantsMethod}.`
  );
}
