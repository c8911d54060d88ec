/** `serve`: the start, reloads and the shutdown. */
import { createPlantServer } from "../index.ts";
import { createAccessLog } from "./access-log.ts";
import type { Admin } from "./admin.ts";
import { ExitError, internalErrorMessage, messageOf } from "./exit.ts";
import { watchHealth } from "./health.ts";
import { version } from "./help.ts";
import type { Host } from "./host.ts";
import { announcement, baseOf, isExposed, listen } from "./listen.ts";
import { createLog, type Log } from "./log.ts";
import { openStore, type Store } from "./open-store.ts";
import { openCredentials, readTlsPair } from "./secrets.ts";
import { unknownVariables, type Config } from "./settings.ts";
import { watchForShutdown, type Shutdown } from "./shutdown.ts";
import { openTokens } from "./tokens.ts";

/** Serves until a signal or a failed journal requests the shutdown; resolves with the exit code. */
export async function serve(config: Config, host: Host): Promise<number> {
  const log = createLog(host);

  // A signal that comes during the start takes effect when the start is complete.
  const shutdown = watchForShutdown(host);
  host.onSignal("SIGHUP", () => {
    starting.then(
      (running) => reload(running, config, host, log),
      () => undefined
    );
  });
  const starting = start(config, host, log, shutdown);
  const running = await starting;
  const { server, store, failed, health, accessLog, admin } = running;
  announce(running, config, host, log);

  // Every accepted request gets its response, until the deadline.
  const reason = await Promise.race([shutdown.requested, failed]);
  log("info", `draining: ${reason}`);
  health.become("draining");
  if (!(await server.drain())) {
    host.warn(`requests were cut off after ${config.limits.drainMillis} ms`);
    shutdown.endNow();
  }
  await store.close();
  admin?.close();
  accessLog.reportSkipped();
  const { exitCode } = shutdown;
  log("info", `ended, with ${exitCode}`, { exitCode });
  return exitCode;
}

type Running = Awaited<ReturnType<typeof start>>;

/**
 * Reads the secret files, opens the store, and listens, in this order. Each may refuse to start,
 * and no request is served before all are done.
 */
async function start(config: Config, host: Host, log: Log, shutdown: Shutdown) {
  const guard = { userId: host.userId, log: logOnce(log) };
  const { tlsCert, tlsKey, storeCredentials } = config;
  const tokens = openTokens(config, host.environment, guard);
  const readTls = () => readTlsPair(tlsCert, tlsKey, guard);
  const tls = tlsCert === "" ? undefined : readTls();
  const credentials = openCredentials(storeCredentials, guard);

  // Mistakes in the settings are lines of text, for a person. From here on messages are events.
  host.warn = (message, level = "warn") => log(level, message);
  warnOfSettings(config, host);
  const store = await openStore(config, host, credentials);
  const failed = failureOf(store, log, shutdown);
  const health = watchHealth(log, store);
  const accessLog = createAccessLog(log, tokens, config);

  let admin: Admin | undefined;
  try {
    // First, so that it can report that the start is in progress.
    if (config.admin !== "") {
      const { openAdmin } = await import("./admin.ts");
      admin = await openAdmin(config, host, store, health);
    }
    const server = createPlantServer({
      store,
      tokens: tokens.accepted,
      basePath: config.basePath,
      limits: config.limits,
      tls,
      onFault: (error) => log("error", internalErrorMessage(error)),
      onResponse: (summary, socket, response) => {
        accessLog.onResponse(summary, socket, response);
        admin?.metrics.count(summary);
      }
    });
    admin?.metrics.watch(server);
    await listen(server, config);

    // A connection that could not be accepted, on systems that report it.
    server.on("error", (error) => host.warn(messageOf(error)));
    health.become("ready");
    const parts = { server, store, failed, tokens, readTls };
    return { ...parts, health, accessLog, admin };
  } catch (error) {
    admin?.close();
    await store.close();
    throw new ExitError("unavailable", `cannot listen: ${messageOf(error)}`);
  }
}

/** Logs each message once, however often a file is read. */
function logOnce(log: Log): Log {
  const logged = new Set<string>();
  return (level, message) => {
    if (!logged.has(message)) log(level, message);
    logged.add(message);
  };
}

/** Warns of settings that are probably not what the operator wanted. */
function warnOfSettings({ limits }: Config, host: Host): void {
  const unknown = unknownVariables(host.environment);
  if (unknown !== "") host.warn(unknown);

  // Each connection takes a descriptor; journal, locks, streams and admin listener take others.
  const otherFiles = 64;
  const { connectionsMax } = limits;
  const filesMax = host.openFilesMax();
  if (filesMax < connectionsMax + otherFiles) {
    host.warn(
      `the hard limit on open files, ${filesMax}, is too low for --max-connections ` +
        `${connectionsMax}: raise it above ${connectionsMax + otherFiles}`
    );
  }
}

/** Resolves with the reason for the shutdown if the journal fails; its code is the exit code. */
const failureOf = (
  store: Store,
  log: Log,
  shutdown: Shutdown
): Promise<string> =>
  new Promise((resolve) =>
    store.once("failed", (error) => {
      log("error", error.message);
      shutdown.exitCode = error.exitCode;
      resolve("the journal has failed");
    })
  );

/** Logs and prints that the server listens, and where. */
function announce(
  { server, store, tokens, admin }: Running,
  config: Config,
  host: Host,
  log: Log
): void {
  const base = baseOf(server, config);
  const { records } = store.stats;
  const { store: address } = config;
  const [kind, description] =
    records === undefined
      ? ["stream", address]
      : ["journal", `${records} records in ${address}`];
  if (config.tlsCert === "" && isExposed(server)) {
    host.warn(
      "listens beyond loopback without TLS: tokens can be read on the way (RFC 6750, 5.3)"
    );
  }
  const names = tokens.names();
  log("info", `serving ${base}, ${description}, tokens: ${names}`, {
    version,
    base,
    admin: admin?.base,
    [kind]: address,
    records,
    tokens: names
  });

  // The server serves whether or not the line can be printed.
  host
    .print(announcement(base, config, tokens.generated()))
    .catch((error: unknown) => host.warn(messageOf(error)));
}

/** Does what SIGHUP requests. A part that fails leaves the others to do their work. */
function reload(
  running: Running,
  { store: address, tokensFile, tlsCert }: Config,
  host: Host,
  log: Log
): void {
  const { server, store, tokens, readTls, admin } = running;
  const again = (what: string, read: () => void): void => {
    try {
      read();
      log("info", `${what} reloaded`, { tokens: tokens.names() });
    } catch (error) {
      host.warn(`${messageOf(error)}; the old ${what} stay`);
    }
  };
  if (tokensFile !== "") again("tokens", tokens.reload);
  if (tlsCert !== "")
    again("certificate and key", () => server.setSecureContext?.(readTls()));

  // A stream has nothing to rotate.
  store.rotate?.().then(
    (isNew) => {
      if (isNew) admin?.metrics.add("plant_store_journal_rotations_total");
      log(
        "info",
        isNew
          ? `rotated: now writing to ${address}`
          : `not rotated: ${address} was not renamed`
      );
    },
    (error: unknown) =>
      host.warn(`${messageOf(error)}; still writing to the old file`)
  );
}
