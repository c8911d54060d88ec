/** The admin listener: whether the process lives, whether it is ready, and its figures. It is
 * loaded only where it is asked for, and shares nothing with the public one. */
import { createServer } from "node:http";
import { optionsOf } from "../http/strict-server.ts";
import type { Health } from "./health.ts";
import type { Host } from "./host.ts";
import { baseOf, listen } from "./listen.ts";
import { makeMetrics } from "./metrics.ts";
import type { Config } from "./settings.ts";
import type { Store } from "./open-store.ts";

/** A few machines ask now and then: heads and time-outs have the limits of the public listener. */
const connectionsMax = 16;

export type Admin = Awaited<ReturnType<typeof openAdmin>>;

/** Listens at [HOST:]PORT, on loopback by default, or at a path; rejects where it can't. */
export async function openAdmin(
  config: Config,
  host: Host,
  store: Store,
  health: Health
) {
  const metrics = makeMetrics(host, store);
  const answerTo = (
    method: string,
    path: string
  ): readonly [status: number, text: string] => {
    if (!["GET", "HEAD"].includes(method))
      return [405, "expected GET or HEAD\n"];
    const hindrance = health.hindrance();
    if (path === "/readyz")
      return [hindrance ? 503 : 200, `${hindrance ?? "ready"}\n`];
    if (path === "/livez") return [200, "alive\n"];
    if (path === "/metrics") return [200, metrics.text()];
    return [404, "expected /livez, /readyz or /metrics\n"];
  };

  const options = { ...optionsOf(config.limits), requireHostHeader: true };
  const server = createServer(
    options,
    ({ method = "", url = "" }, response) => {
      const [status, text] = answerTo(method, url.replace(/\?.*/s, ""));
      response
        .writeHead(status, {
          // Of the figures, and as good for the rest, which is plain text too.
          "Content-Type": "text/plain; version=0.0.4; charset=utf-8",
          "Content-Length": text.length,
          "Cache-Control": "no-store",
          "Allow": "GET, HEAD",
          "Connection": "close"
        })
        .end(text);
    }
  );
  server.maxConnections = connectionsMax;
  server.timeout = config.limits.idleMillis;

  const [, name = "127.0.0.1", port] =
    /^(?:\[?([^/]*?)\]?:)?(\d+)$/.exec(config.admin) ?? [];
  const socket = port === undefined ? config.admin : "";
  const place = {
    socket,
    host: name,
    port: Number(port),
    isHandedIn: false,
    tlsCert: ""
  };
  await listen(server, place);

  // It keeps no process alive that has nothing else to do.
  server.unref();
  const close = (): void => server.close().closeAllConnections();
  return { metrics, base: baseOf(server, place), close };
}
