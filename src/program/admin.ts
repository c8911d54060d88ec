/**
 * The admin listener: liveness, readiness and metrics. It is loaded on demand, and shares nothing
 * with the public listener.
 */
import { createServer, type IncomingMessage } from "node:http";
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
  const metrics = createMetrics(sources);
  const options = { ...optionsOf(config.limits), requireHostHeader: true };
  const server = createServer(options, (request, response) => {
    const [status, text] = respondTo(request, metrics, sources);
    response
      .writeHead(status, {
        // The type of the metrics, and as good for the other pages, which are plain text.
        "Content-Type": "text/plain; version=0.0.4; charset=utf-8",
        "Content-Length": text.length,
        "Cache-Control": "no-store",
        "Allow": "GET, HEAD",
        "Connection": "close"
      })
      .end(text);
  });
  server.maxConnections = connectionsMax;
  server.timeout = config.limits.idleMillis;

  const address = addressOf(config);
  await listen(server, address);
  server.on("error", (error) => sources.host.log("warn", messageOf(error)));

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
  { method = "", url = "" }: IncomingMessage,
  metrics: Metrics,
  { health, host }: Sources
): readonly [status: number, text: string] {
  if (!["GET", "HEAD"].includes(method)) return [405, "expected GET or HEAD\n"];
  try {
    const reason = health.notReadyReason();
    switch (url.replace(/\?.*/s, "")) {
      case "/readyz":
        return [reason ? 503 : 200, `${reason ?? "ready"}\n`];
      case "/livez":
        return [200, "alive\n"];
      case "/metrics":
        return [200, metrics.text()];
    }
    return [404, "expected /livez, /readyz or /metrics\n"];
  } catch (error) {
    // Never fatal: plants are taken whatever becomes of the metrics.
    host.log("error", internalErrorMessage(error));
    return [500, "internal error\n"];
  }
}
