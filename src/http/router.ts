/** Method and path to the one operation. */
import { must } from "./errors.ts";

export const plantsPath = "/plants";
export const plantsMethod = "POST";
/** Lets POST on the wanted path through; the path is compared as sent, byte for byte. */
export function checkRoute(method: string | undefined, path: string, wanted: string): void {
  must(path === wanted, "path", () => `There is nothing at this path: expected ${wanted}.`);
  must(method === plantsMethod, "method", `The method must be ${plantsMethod}.`);
}
