/** Method and path to the one operation. */
import { ApiError } from "./errors.ts";

/** The routes: the description for machines is made from them too. */
export const plantsPath = "/plants";
export const plantsMethod = "POST";

/**
 * Lets POST on the plants' path through. The path is compared as sent, byte for byte.
 * @throws ApiError `path` or `method`
 */
export function checkRoute(method: string | undefined, path: string, basePath: string): void {
  if (path !== basePath + plantsPath) {
    throw new ApiError("path", `There is nothing at this path: expected ${basePath}${plantsPath}.`);
  }
  if (method !== plantsMethod) {
    throw new ApiError("method", `The method must be ${plantsMethod}.`);
  }
}
