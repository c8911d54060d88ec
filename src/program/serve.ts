/** `serve`: from the start, through reloads, to the end. */
import { createPlantServer, type ResponseListener } from "../index.ts";
import type { Admin } from "./admin.ts";
import { watchForEnd, type Ending } from "./shutdown.ts";
import { ExitError, faultMessage, messageOf } from "./exit.ts";
import { watchHealth } from "./health.ts";
import { version } from "./help.ts";
import type { Host } from "./host.ts";
import { announcement, baseOf, isExposed, listen } from "./listen.ts";
import { makeLog, type Log } from "./log.ts";
import { makeRequestLog } from "./access-log.ts";
import { readTlsPair } from "./secrets.ts";
import type { Config } from "./settings.ts";
import { openStore, type Store } from "./open-store.ts";
import { openTokens } from "./tokens.ts";

/** Serves until a signal or a store that fails asks for the end; the exit code. */
export async function serve(config: Config, host: Host): Promise<number> {
  const log = makeLog(host);

  // No signal is lost from here on: what comes during the start is done when the start is.
  const ending = watchForEnd(host);
  host.onSignal("SIGHUP", () => {
    starting.then(
      (running) => reload(running, config, host, log),
      () => undefined
    );
  });
  const starting = start(config, host, log, ending);
  const { server, store, shown, failed, tokens, health, requests, admin } =
    await starting;

  const base = baseOf(server, config);
  const { records } = store.stats;
  const [kind, kept] =
    records === undefined
      ? ["stream", shown]
      : ["journal", `${records} records in ${shown}`];
  if (config.tlsCert === "" && isExposed(server)) {
    host.warn(
      "listens beyond loopback without TLS: tokens can be read on the way (RFC 6750, 5.3)"
    );
  }
  log("info", `serving ${base}, ${kept}, tokens: ${tokens.names()}`, {
    version,
    base,
    admin: admin?.base,
    [kind]: shown,
    records,
    tokens: tokens.names()
  });

  // Where nobody can read it, it is served all the same.
  host
    .print(announcement(base, config, tokens.made))
    .catch((error: unknown) => host.warn(messageOf(error)));

  // Every request that was accepted gets its answer, but not for ever.
  log("info", `draining: ${await Promise.race([ending.asked, failed])}`);
  health.become("draining");
  if (!(await server.drain())) {
    host.warn(`requests were cut off after ${config.limits.drainMillis} ms`);
    ending.atOnce();
  }
  await store.close();
  admin?.close();
  requests.tellLeftOut();
  log("info", `ended, with ${ending.code}`, { exitCode: ending.code });
  return ending.code;
}

/**
 * Reads the files of secrets, opens the store, and listens, in this order: each may refuse to
 * start, and nobody is served before all are there.
 */
async function start(config: Config, host: Host, log: Log, ending: Ending) {
  // Of a file's mode once is enough, however often it is read.
  const warned = new Set<string>();
  const warnOnce = (message: string): void => {
    if (!warned.has(message)) log("warn", message);
    warned.add(message);
  };
  const { tlsCert, tlsKey, basePath, limits } = config;
  const tokens = openTokens(config, warnOnce);
  const readTls = () => readTlsPair(tlsCert, tlsKey, warnOnce);
  const tls = tlsCert === "" ? undefined : readTls();

  // Not before: what is wrong with the settings is lines of text, for a person reads them.
  host.warn = (message, level = "warn") => log(level, message);

  // A failed journal answers 503 to all: the end is asked for, and a supervisor starts it anew.
  const { store, shown }: { store: Store; shown: string } = await openStore(
    config,
    host
  );
  const failed = new Promise<string>((resolve) =>
    store.once("failed", (error) => {
      log("error", error.message);
      ending.code = error.exitCode;
      resolve("the journal has failed");
    })
  );
  const health = watchHealth(log, store);
  const requests = makeRequestLog(log, tokens, config);

  let admin: Admin | undefined;
  try {
    // First, so that it tells that the other is to come; what nobody asks for is not even loaded.
    if (config.admin !== "") {
      admin = await (
        await import("./admin.ts")
      ).openAdmin(config, host, store, health);
    }
    const onFault = (error: unknown): void => log("error", faultMessage(error));
    const onResponse: ResponseListener = (answer, socket, response) => {
      requests.onResponse(answer, socket, response);
      admin?.metrics.count(answer);
    };
    const server = createPlantServer({
      store,
      tokens: tokens.accepted,
      basePath,
      limits,
      onFault,
      onResponse,
      tls
    });
    admin?.metrics.watch(server);
    await listen(server, config);
    // A connection that could not be accepted, where the system tells it: the others are served on.
    server.on("error", (error) => host.warn(messageOf(error)));
    health.become("ready");
    return {
      server,
      store,
      shown,
      failed,
      tokens,
      readTls,
      health,
      requests,
      admin
    };
  } catch (error) {
    admin?.close();
    await store.close();
    throw new ExitError("unavailable", `can't listen: ${messageOf(error)}`);
  }
}

type Running = Awaited<ReturnType<typeof start>>;

/** What SIGHUP does. Each part does its work, whatever becomes of the others. */
function reload(
  running: Running,
  { tokensFile, tlsCert }: Config,
  host: Host,
  log: Log
): void {
  const { server, store, shown, tokens, readTls, admin } = running;
  const again = (what: string, read: () => void): void => {
    try {
      read();
      log("info", `the ${what} are read again`, { tokens: tokens.names() });
    } catch (error) {
      host.warn(`${messageOf(error)}; the old ${what} stay`);
    }
  };
  if (tokensFile !== "") again("tokens", tokens.read);
  if (tlsCert !== "")
    again("certificate and key", () => server.setSecureContext?.(readTls()));
  // A stream has nothing to rotate.
  store.rotate?.().then(
    (isNew) => {
      if (isNew) admin?.metrics.add("plant_store_journal_rotations_total");
      log(
        "info",
        `${isNew ? "goes on in a new file" : "no new journal is begun"} at ${shown}`
      );
    },
    (error: unknown) =>
      host.warn(`${messageOf(error)}; the old file stays in use`)
  );
}
