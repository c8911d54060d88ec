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
  adminAddressOf,
  announcement,
  checkAddresses,
  listen
} from "./listen.ts";
import { createLog } from "./log.ts";
import { checkStore, openStore } from "../open-store.ts";
import { readTls, readTlsPair } from "../secrets.ts";
import type { Config } from "../settings.ts";
import { watchForShutdown, type Shutdown } from "./shutdown.ts";
import { openTokens } from "./tokens.ts";

/** Serves until a signal or a failed journal requests the shutdown; resolves with the exit code. */
export async function serve(config: Config, host: Host) {
  host.log = createLog(host, config.logFormat);
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
            rotate(running, config, log, shutdown);
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
  if (!(await running.server.drain())) {
    log("warn", `requests were cut off after ${config.limits.drainMillis} ms`);
    shutdown.endNow();
  }
  await running.store.close();
  running.accessLog.reportSkipped();
  const { exitCode } = shutdown;
  log("info", `ended, with ${exitCode}`, { exitCode });
  return exitCode;
}

/**
 * Checks settings, secret files and paths as `serve` does, and opens neither store nor port.
 * Reports each mistake, and resolves with the exit code of the worst.
 */
export async function check(config: Config, host: Host) {
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
  const secrets = loadSecrets(config, host);
  const store = await whenThereIsSpace(
    () => openStore(config, host),
    "it cannot start",
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
    const adminAddress = adminAddressOf(config);
    const admin =
      adminAddress &&
      (await import("./admin.ts").then(({ openAdmin }) =>
        openAdmin(adminAddress, config, { store, host, health, secrets })
      ));
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
    for (const part of [admin?.metrics, accessLog]) part?.watch(server);
    const address = await listen(server, addressOf(config), log);
    return { secrets, server, address, store, health, accessLog, admin };
  } catch (error) {
    await store.close();
    throw error;
  }
}

const loadSecrets = (config: Config, host: Host) => ({
  tokens: openTokens(config, host),
  tls: readTls(config, host),
  isLoaded: true,
  loadedAt: Date.now()
});

/** Time between two tries while there is no space. */
const againMillis = 1_000;

/**
 * Does a step, again each second while it finds no space, which it logs once.
 *
 * @throws the step's error: another one, or the last one once the shutdown is requested
 */
async function whenThereIsSpace<T>(
  step: () => Promise<T>,
  consequence: string,
  log: Log,
  { requested }: Shutdown
): Promise<T> {
  for (let tries = 0; ; tries++)
    try {
      return await step();
    } catch (error) {
      if (!isFull(error)) throw error;
      if (tries === 0)
        log(
          "error",
          `${messageOf(error)}; ${consequence} until there is space`
        );
      if (await Promise.race([requested, pause(againMillis)])) throw error;
    }
}

/** Logs and prints that the server listens, and where. */
function announce(
  { address, store, secrets: { tokens, tls }, admin }: Running,
  config: Config,
  { log, print }: Host
) {
  const { base, isExposed } = address;
  const { records } = store.stats;
  if (!tls && isExposed)
    log(
      "warn",
      "listens beyond loopback without TLS: tokens can be read on the way (RFC 6750, 5.3)"
    );
  const names = tokens.names();

  // A Unix socket's path ends at the second colon.
  const url = `${base}${base.startsWith("unix:") ? ":" : ""}${config.basePath}/plants`;
  const message =
    `serving ${url}, store ${config.store}, records: ${records ?? "unknown"}, ` +
    `tokens: ${names}${endOf(tls)}`;
  log("info", message, {
    version,
    base,
    admin: admin?.base,
    store: config.store,
    records,
    tokens: names,
    notAfter: tls?.notAfter
  });

  // The server serves whether or not the line can be printed.
  print(announcement(base, config, tokens.generated())).catch(
    (error: unknown) => log("warn", messageOf(error))
  );
}

/** Returns the end of the certificate for a message, if there is one. */
const endOf = ({ notAfter }: Reloaded = {}) =>
  notAfter ? `, certificate until ${notAfter.toISOString()}` : "";

/** What was read again, for the log. */
type Reloaded = {
  readonly tokens?: readonly string[];
  readonly notAfter?: Date;
};

/** Reads the secret files again. One that is refused leaves the others to be read. */
function reload({ server, secrets }: Running, config: Config, host: Host) {
  const { log } = host;
  const again = (what: string, read: () => Reloaded) => {
    try {
      const fields = read();
      const names = fields.tokens ? `: ${fields.tokens.join(", ")}` : "";
      log("info", `${what} reloaded${names}${endOf(fields)}`, fields);
    } catch (error) {
      log("warn", `${messageOf(error)}; the old ${what} stay`);
      secrets.isLoaded = false;
    }
  };
  secrets.isLoaded = true;
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
function rotate(
  { store, secrets, admin, health }: Running,
  config: Config,
  log: Log,
  shutdown: Shutdown
) {
  const step = store.rotate?.bind(store);
  if (!step) return;
  whenThereIsSpace(step, "it is not rotated", log, shutdown).then(
    (isNew) => {
      if (isNew) admin?.metrics.add("plant_store_journal_rotations_total");
      const isReady = health.state === "ready";
      const reason = isReady ? `${config.store} was not renamed` : health.state;

      // Who renews a certificate or tokens has not asked for a rotation.
      const mayBeForSecrets = config.tokensFile !== "" || secrets.tls;
      if (!isNew && isReady && mayBeForSecrets) return;
      log(
        "info",
        isNew
          ? `rotated: now writing to ${config.store}`
          : `not rotated: ${reason}`
      );
    },
    (error: unknown) =>
      log("warn", `${messageOf(error)}; still writing to the old file`)
  );
}
