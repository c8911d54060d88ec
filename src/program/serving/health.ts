/** Whether plants can be taken: logs each change, and gives /readyz its reason. */
import type { Log } from "../host.ts";
import type { Store } from "../open-store.ts";

/**
 * The time from the last plant that found no space until the server counts as ready again. A server
 * that is sent no plants cannot learn that there is space. Also the least time between two log
 * lines on missing space: near the end, small plants still fit where large ones do not.
 */
const fullMillis = 10_000;

export type Health = ReturnType<typeof watchHealth>;

/** Watches a store from now on. */
export function watchHealth(log: Log, store: Store, name: string) {
  /** Time of the last plant that found no space, if none was stored since. */
  let fullAt = -Infinity;

  /** Time of the last log line on missing space, and whether its counterpart is still to come. */
  let loggedAt = -Infinity;
  let isFullLogged = false;

  store.on("full", () => {
    fullAt = performance.now();
    if (isFullLogged || fullAt - loggedAt < fullMillis) return;
    log("error", `${name}: no space, plants are refused until there is`);
    loggedAt = fullAt;
    isFullLogged = true;
  });
  store.on("batch", () => {
    fullAt = -Infinity;
    if (isFullLogged) log("info", `${name}: there is space again`);
    isFullLogged = false;
  });

  return {
    /** `ready`, or why the server is not. */
    state: "starting",

    /** Returns why plants should go elsewhere; undefined if the server is ready. */
    notReadyReason() {
      if (this.state !== "ready") return this.state;
      if (performance.now() - fullAt < fullMillis) return "full";
      return store.stats.isReachable === false ? "unreachable" : undefined;
    }
  };
}
