/** `serve`: from the start, through reloads, to the end. */
import { createPlantServer } from "../index.ts";
import { openJournal } from "../journal/journal.ts";
import { Ending } from "./ending.ts";
import { ExitError, faultMessage, messageOf } from "./exit.ts";
import type { Host } from "./host.ts";
import { announcement, isExposed, listen } from "./listen.ts";
import { readTlsPair } from "./secrets.ts";
import type { Config } from "./settings.ts";
import { Tokens } from "./tokens.ts";

/** Serves until a signal or a journal that fails asks for the end; the exit code. */
export async function serve(config: Config, host: Host): Promise<number> {
  // No signal is lost from here on: what comes during the start is done when the start is.
  const ending = new Ending(host);
  host.onSignal("SIGHUP", () => {
    starting.then(reload, () => undefined);
  });
  const starting = start(config, host, ending);
  const { server, journal, tokens } = await starting;

  // Where nobody can read it, it is served all the same.
  host.print(announcement(server, config, tokens.made))
    .catch((error: unknown) => host.warn(messageOf(error)));

  // Every request that was accepted gets its answer, but not for ever.
  await ending.asked;
  if (!await server.drain()) {
    host.warn(`requests were cut off after ${config.limits.drainMillis} ms`);
    ending.atOnce();
  }
  await journal.close();
  return ending.code;
}

/**
 * Reads the files of secrets, opens the journal, and listens, in this order: each may refuse to
 * start, and nobody is served before all are there.
 */
async function start(config: Config, host: Host, ending: Ending) {
  const { store, limits, basePath, tlsCert, tlsKey } = config;

  // Of a file's mode once is enough, however often it is read.
  const warned = new Set<string>();
  const warnOnce = (message: string): void => {
    if (!warned.has(message)) host.warn(message);
    warned.add(message);
  };
  const tokens = new Tokens(config, warnOnce);
  const readTls = () => readTlsPair(tlsCert, tlsKey, warnOnce);
  const tls = tlsCert === "" ? {} : { tls: readTls() };

  // A failed journal answers 503 to all: the end is asked for, and a supervisor starts it anew.
  const journal = await openJournal(store, { limits, warn: host.warn });
  journal.once("failed", (error) => {
    host.warn(error.message);
    ending.fail(error.exitCode);
  });

  const onFault = (error: unknown): void => host.warn(faultMessage(error));
  const server = createPlantServer({
    store: journal, tokens: tokens.accepted, basePath, limits, onFault, ...tls,
  });
  try {
    await listen(server, config);
  } catch (error) {
    await journal.close();
    throw new ExitError("unavailable", `can't listen: ${messageOf(error)}`);
  }
  // A connection that could not be accepted, where the system tells it: the others are served on.
  server.on("error", (error) => host.warn(messageOf(error)));
  if (tlsCert === "" && isExposed(server)) {
    host.warn("listens beyond loopback without TLS: tokens can be read on the way (RFC 6750, 5.3)");
  }
  return { config, host, tokens, journal, server, readTls };
}

type Running = Awaited<ReturnType<typeof start>>;

/** What SIGHUP does. Each part does its work, whatever becomes of the others. */
function reload({ config, host, tokens, journal, server, readTls }: Running): void {
  const again = (what: string, read: () => void): void => {
    try {
      read();
      host.warn(`the ${what} are read again`);
    } catch (error) {
      host.warn(`${messageOf(error)}; the old ${what} stay`);
    }
  };
  if (config.tokensFile !== "") again("tokens", () => tokens.read());
  if (config.tlsCert !== "") {
    again("certificate and key", () => server.setSecureContext?.(readTls()));
  }
  journal.rotate().then(
    (isNew) => host.warn(`${isNew ? "goes on in a new file" : "no new journal is begun"} at `
      + config.store),
    (error: unknown) => host.warn(`${messageOf(error)}; the old file stays in use`),
  );
}
