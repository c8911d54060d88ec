/**
 * The admin listener: liveness, readiness and metrics. It is loaded on demand, and shares nothing
 * with the public listener.
 */
import { createServer } from "node:http";
import { optionsOf } from "../http/strict-server.ts";
import { internalErrorMessage, messageOf } from "./exit.ts";
import { describeAddress, listen } from "./listen.ts";
import { createMetrics, type Metrics, type Sources } from "./metrics.ts";
import type { Config } from "./settings.ts";

/** Enough for a few machines that ask now and then. */
const connectionsMax = 16;

/** [HOST:]PORT; an IPv6 address in brackets. */
const addressForm = new RegExp(String.raw`^(?:\[?([^/]*?)\]?:)?(\d+)$`);

export type Admin = Awaited<ReturnType<typeof openAdmin>>;

/**
 * Listens at [HOST:]PORT, on loopback by default, or at a path. Heads and timeouts have the limits
 * of the public listener.
 *
 * @throws Error if the address cannot be had
 */
export async function openAdmin(config: Config, sources: Sources) {
  const { host, health } = sources;
  const metrics = createMetrics(sources);
  const options = { ...optionsOf(config.limits), requireHostHeader: true };
  const server = createServer(
    options,
    ({ method = "", url = "" }, response) => {
      let [status, text] = [500, "internal error\n"];
      try {
        const path = url.replace(/\?.*/s, "");
        [status, text] = respondTo(
          method,
          path,
          metrics,
          health.notReadyReason()
        );
      } catch (error) {
        // Never fatal: plants are taken whatever becomes of the metrics.
        host.log("error", internalErrorMessage(error));
      }
      response
        .writeHead(status, {
          // The type that Prometheus expects. It suits the other pages, too: they are plain text.
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

  const address = addressOf(config);
  await listen(server, address);
  server.on("error", (error) => host.log("warn", messageOf(error)));

  // The admin listener alone does not keep the process running.
  server.unref();
  const close = () => server.close().closeAllConnections();
  const { base } = describeAddress(server, address);
  return { metrics, base, close };
}

/** Returns the settings with the address of the admin listener in place of the public one. */
function addressOf(config: Config): Config {
  const [, host = "127.0.0.1", port] = addressForm.exec(config.admin) ?? [];
  const socket = port === undefined ? config.admin : "";
  const isInherited = false;
  return {
    ...config,
    socket,
    host,
    port: Number(port),
    isInherited,
    tlsCert: ""
  };
}

function respondTo(
  method: string,
  path: string,
  metrics: Metrics,
  reason: string | undefined
): readonly [status: number, text: string] {
  if (!["GET", "HEAD"].includes(method)) return [405, "expected GET or HEAD\n"];
  if (path === "/readyz") return [reason ? 503 : 200, `${reason ?? "ready"}\n`];
  if (path === "/livez") return [200, "alive\n"];
  if (path === "/metrics") return [200, metrics.text()];
  return [404, "expected /livez, /readyz or /metrics\n"];
}
