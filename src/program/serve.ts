/** `serve`: from the start, through reloads, to the end. */
import { createPlantServer } from "../index.ts";
import { openJournal } from "../journal/journal.ts";
import { Ending } from "./ending.ts";
import { ExitError, faultMessage, messageOf } from "./exit.ts";
import type { Host } from "./host.ts";
import { announcement, listen } from "./listen.ts";
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

/** Reads the tokens, opens the journal, and listens, in this order: each may refuse to start, and
 * nobody is served before all are there. */
async function start(config: Config, host: Host, ending: Ending) {
  const { store, limits, basePath } = config;
  const tokens = new Tokens(config, host);

  // A failed journal answers 503 to all: the end is asked for, and a supervisor starts it anew.
  const journal = await openJournal(store, { limits, warn: host.warn });
  journal.once("failed", (error) => {
    host.warn(error.message);
    ending.fail(error.exitCode);
  });

  const onFault = (error: unknown): void => host.warn(faultMessage(error));
  const { accepted } = tokens;
  const server = createPlantServer({ store: journal, tokens: accepted, basePath, limits, onFault });
  try {
    await listen(server, config);
  } catch (error) {
    await journal.close();
    throw new ExitError("unavailable", `can't listen: ${messageOf(error)}`);
  }
  // A connection that could not be accepted, where the system tells it: the others are served on.
  server.on("error", (error) => host.warn(messageOf(error)));
  return { config, host, tokens, journal, server };
}

type Running = Awaited<ReturnType<typeof start>>;

/** What SIGHUP does. Each half does its work, whatever becomes of the other. */
function reload({ config, host, tokens, journal }: Running): void {
  try {
    tokens.read();
  } catch (error) {
    host.warn(`${messageOf(error)}; the old tokens stay`);
  }
  journal.rotate().then(
    (isNew) => isNew && host.warn(`goes on in a new file at ${config.store}`),
    (error: unknown) => host.warn(`${messageOf(error)}; the old file stays in use`),
  );
}
