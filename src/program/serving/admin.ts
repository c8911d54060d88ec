/**
 * The admin listener: liveness, readiness and metrics. It is loaded on demand, and is a server of
 * its own.
 */
import { createServer, type IncomingMessage } from "node:http";
import { optionsOf } from "../../http/strict-server.ts";
import { internalErrorMessage } from "../exit.ts";
import { adminAddressOf, listen } from "./listen.ts";
import { createMetrics, type Metrics, type Sources } from "./metrics.ts";
import type { Config } from "../settings.ts";

/** Enough for a few machines that ask now and then. */
const connectionsMax = 16;

/**
 * Listens at the address of the settings. Heads and timeouts have the limits of the public listener.
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
        // The type that Prometheus expects. The other pages are plain text, which it also covers.
        "Content-Type": "text/plain; version=0.0.4; charset=utf-8",
        "Content-Length": text.length,
        "Cache-Control": "no-store",
        "Connection": "close"
      })
      .end(text);
  });
  server.maxConnections = connectionsMax;
  server.timeout = config.limits.idleMillis;

  const base = await listen(server, adminAddressOf(config), sources.host.log);

  // The admin listener alone does not keep the process running.
  server.unref();
  return { metrics, base };
}

function respondTo(
  { url = "" }: IncomingMessage,
  metrics: Metrics,
  { health, host }: Sources
): readonly [status: number, text: string] {
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
