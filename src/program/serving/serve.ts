/** `serve`: the start, reloads and the shutdown. */
import { setTimeout as pause } from "node:timers/promises";
import { createPlantServer } from "../../index.ts";
import { messageOf } from "../../failure.ts";
import { isWindows } from "../../system.ts";
import { createAccessLog } from "./access-log.ts";
import { internalErrorMessage, reportEach } from "../exit.ts";
import { watchHealth } from "./health.ts";
import { version } from "../../config.ts";
import { isFull } from "../../journal/journal.ts";
import type { Host, Log } from "../host.ts";
import {
  addressOf,
  announcement,
  checkAddresses,
  isExposed,
  listen,
  urlOf
} from "./listen.ts";
import { createLog } from "./log.ts";
import { checkStore, openStore } from "../open-store.ts";
import { readTls, readTlsPair } from "../secrets.ts";
import { warnOfUnknown, type Config } from "../settings.ts";
import { watchForShutdown, type Shutdown } from "./shutdown.ts";
import { openSecrets, openTokens } from "./tokens.ts";

/** Serves until a signal or a failed journal requests the shutdown; resolves with the exit code. */
export async function serve(config: Config, host: Host) {
  host.log = createLog(host, config.logFormat);
  warnOfUnknown(host);
  const { log } = host;

  // The first signal that comes during the start takes effect when the start is complete.
  const shutdown = watchForShutdown(host);

  // A terminal that is closed by now has sent its SIGHUP before this listens.
  const hungUp = "the terminal is closed";
  if (host.isHungUp()) shutdown.request(hungUp);
  const starting = start(config, host, shutdown);
  if (!isWindows)
    host.onSignal("SIGHUP", () => {
      if (host.isHungUp()) shutdown.request(hungUp);
      else
        starting.then(
          (running) => {
            reload(running, config, host);
            void rotate(running, config, log, shutdown);
          },
          () => undefined
        );
    });
  const running = await starting;
  running.health.state = "ready";
  announce(running, config, host);

  // Every accepted request gets its response, until the deadline.
  const draining = `draining: ${await shutdown.requested}`;
  log("info", draining);
  running.health.state = draining;
  if (!(await running.server.drain())) shutdown.endNow();
  await running.store.close();
  running.accessLog.reportSkipped();
  const { exitCode } = shutdown;
  log("info", `ended, with ${exitCode}`);
  return exitCode;
}

/**
 * Checks settings, secret files and paths as `serve` does, and opens neither store nor port.
 * Reports each mistake, and resolves with the exit code of the worst.
 */
export async function check(config: Config, host: Host) {
  warnOfUnknown(host);
  const steps = [openTokens, readTls, checkAddresses, checkStore];
  const code = await reportEach(steps, (step) => step(config, host), host);
  return code || host.print("the settings can be used");
}

type Running = Awaited<ReturnType<typeof start>>;

/**
 * Reads the secret files, opens the store, and listens, in this order. Each may refuse to start,
 * and no request is served before all are done.
 */
async function start(config: Config, host: Host, shutdown: Shutdown) {
  const { log } = host;
  const secrets = openSecrets(config, host);
  const store = await whenThereIsSpace(
    () => openStore(config, host),
    log,
    shutdown
  );
  store.once("failed", (error) => {
    log("error", error.message);
    shutdown.request("the journal has failed", error.exitCode);
  });
  const health = watchHealth(log, store, config.store);
  const accessLog = createAccessLog(log, secrets.tokens, config);

  try {
    // First, so that it can report that the start is in progress.
    const admin =
      config.admin === ""
        ? undefined
        : await import("./admin.ts").then(({ openAdmin }) =>
            openAdmin(config, { store, host, health, secrets })
          );
    const server = createPlantServer({
      store,
      tokens: secrets.tokens.accepted,
      basePath: config.basePath,
      limits: config.limits,
      tls: secrets.tls,
      onFault: (error) => log("error", internalErrorMessage(error)),
      onResponse: (summary, socket, response) => {
        accessLog.onResponse(summary, socket, response);
        admin?.metrics.onResponse(summary);
      }
    });
    accessLog.watch(server);
    admin?.metrics.watch(server);
    const base = await listen(server, addressOf(config), log);
    return { secrets, server, base, store, health, accessLog, admin };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Time between two tries while there is no space. */
const againMillis = 1_000;

/**
 * Does a step, again each second while it finds no space, which it logs once.
 *
 * @throws the step's error: another one, or the last one once the shutdown is requested
 */
async function whenThereIsSpace<T>(
  step: () => Promise<T>,
  log: Log,
  { requested }: Shutdown
): Promise<T> {
  for (let tries = 0; ; tries++)
    try {
      return await step();
    } catch (error) {
      if (!isFull(error)) throw error;
      if (tries === 0)
        log("error", `${messageOf(error)}; tried again until there is space`);
      if (await Promise.race([requested, pause(againMillis)])) throw error;
    }
}

/** Logs and prints that the server listens, and where. */
function announce(
  { base, server, store, secrets: { tokens, tls }, admin }: Running,
  config: Config,
  { log, print }: Host
) {
  if (!tls && isExposed(server))
    log(
      "warn",
      "listens beyond loopback without TLS: tokens can be read on the way (RFC 6750, 5.3)"
    );
  const url = urlOf(base, config);
  log("info", "serving", {
    version,
    url,
    base,
    admin: admin?.base,
    store: config.store,
    records: store.stats.records,
    tokens: tokens.names(),
    notAfter: tls?.notAfter
  });

  // The server serves whether or not the line can be printed.
  print(announcement(base, url, config, tokens.generated())).catch(
    (error: unknown) => log("warn", messageOf(error))
  );
}

/** Reads the secret files again. One that is refused leaves the others to be read. */
function reload({ server, secrets }: Running, config: Config, host: Host) {
  secrets.isLoaded = true;
  const again = (what: string, read: () => Parameters<Log>[2]) => {
    try {
      host.log("info", `${what} reloaded`, read());
    } catch (error) {
      host.log("warn", `${messageOf(error)}; the old ${what} stay`);
      secrets.isLoaded = false;
    }
  };
  if (config.tokensFile !== "")
    again("tokens", () => ({ tokens: secrets.tokens.reload() }));
  if (secrets.tls)
    again("certificate and key", () => {
      const tls = readTlsPair(config.tlsCert, config.tlsKey, host);
      server.setSecureContext?.(tls);
      secrets.tls = tls;
      return { notAfter: tls.notAfter };
    });

  if (secrets.isLoaded) secrets.loadedAt = Date.now();
}

/** Continues in a new journal if the old one was renamed. A stream has nothing to rotate. */
async function rotate(
  { store, admin }: Running,
  { store: path }: Config,
  log: Log,
  shutdown: Shutdown
) {
  const step = store.rotate?.bind(store);
  if (!step) return;
  try {
    if (await whenThereIsSpace(step, log, shutdown)) {
      admin?.metrics.add("plant_store_journal_rotations_total");
      log("info", `rotated: now writing to ${path}`);
    } else
      log(
        "info",
        `not rotated: expected a server that is ready, and ${path} renamed`
      );
  } catch (error) {
    log("warn", `${messageOf(error)}; still writing to the old file`);
  }
}
