/** Checks whether a stream and its servers keep what they acknowledge, before anything is sent. */
import { setTimeout } from "node:timers/promises";
import type { NatsLimits } from "../config.ts";
import { EngineError } from "../store.ts";
import type { Host, Settings } from "./address.ts";
import { objectOf, readObject, type JsonObject } from "./protocol.ts";
import type { Connection } from "./server-connection.ts";

/**
 * Asks for the stream's settings; waits up to `noProgressMillis` for a leader that responds.
 *
 * @throws EngineError `config` with the reasons, and the JSON that would make a right stream;
 * `unreachable` if nobody leads the stream
 */
export async function checkStream(
  connection: Connection,
  settings: Settings
): Promise<void> {
  const {
    stream,
    limits: { noProgressMillis }
  } = settings;
  for (let asked = 0; asked < 8; asked++) {
    // A leader that has just lost its quorum may never respond: ask again.
    const pause = setTimeout(noProgressMillis / 8, undefined);
    const reply = await connection.ask(
      `$JS.API.STREAM.INFO.${stream}`,
      noProgressMillis / 8
    );
    const { error, config } = reply ? readObject(reply.payload) : {};
    const { err_code: code, description } = objectOf(error);

    // 10008, JetStream is away for now: an election, as no response is.
    if (code !== 10008 && (error !== undefined || config !== undefined)) {
      const found = objectOf(config);
      const wanted = requirements(found, settings);
      const problems = error
        ? [JSON.stringify(description)]
        : differences(found, wanted);
      if (problems.length === 0) return;
      const right = {
        name: stream,
        deny_delete: true,
        deny_purge: true,
        ...found,
        ...wanted
      };
      const request = `$JS.API.STREAM.${error ? "CREATE" : "UPDATE"}.${stream}`;
      throw new EngineError(
        "config",
        `the stream ${stream}: ${problems.join("; ")}\n` +
          `${request} makes a right one of\n${JSON.stringify(right)}`
      );
    }
    await pause;
  }
  throw new EngineError("unreachable", "nobody leads the stream now");
}

/** Returns the settings that a stream must have: its own, except for those that lose, forget, drop
 * or do not acknowledge a plant. */
function requirements(
  found: JsonObject,
  { stream, replicas, limits }: Settings
): JsonObject {
  const {
    max_bytes = -1,
    max_msgs = -1,
    discard = "new",
    persist_mode: mode
  } = found;
  const atLeast = (name: string, min: number): number =>
    Math.max(Number(found[name] ?? 0), min);
  return {
    subjects: [stream],

    // Memory is lost with its machine.
    storage: "file",
    num_replicas: atLeast("num_replicas", replicas),

    // The other retentions delete a message that was read.
    retention: "limits",
    max_bytes,
    max_msgs,

    // All plants have one subject: a limit for each subject would keep the last few.
    max_msgs_per_subject: -1,

    // A maximum age deletes old plants.
    max_age: 0,

    // The other value deletes the oldest plants when the stream is full.
    discard: Number(max_bytes) > 0 || Number(max_msgs) > 0 ? "new" : discard,

    duplicate_window: atLeast(
      "duplicate_window",
      duplicateWindowMillis(limits) * 1e6
    ),

    // This mode acknowledges before it syncs.
    persist_mode: mode === "async" ? undefined : mode,

    // A 200 needs an acknowledgement.
    no_ack: undefined
  };
}

/** A message is sent again until its deadline: the stream must recognise it for much longer. */
export const duplicateWindowMillis = ({ appendMillis }: NatsLimits): number =>
  4 * appendMillis;

/** Returns a reason for each setting that differs; an undefined setting must be absent. */
const differences = (
  found: JsonObject,
  wanted: JsonObject
): readonly string[] =>
  Object.keys(wanted).flatMap((name) => {
    const [right = "none", is = "none"] = [wanted, found].map((all) =>
      JSON.stringify(all[name])
    );
    return right === is ? [] : [`${name}: expected ${right}, found ${is}`];
  });

/**
 * Asks the servers' monitors whether each server syncs a write before it acknowledges it. The
 * connected server must respond.
 *
 * @returns what was not verified, a line each
 * @throws EngineError
 */
export async function checkServers(
  hosts: readonly Host[],
  connected: Host,
  { monitor, limits }: Settings
): Promise<readonly string[]> {
  if (monitor === 0) return [unverified];
  const warnings: string[] = [];
  for (const { name, shown } of hosts) {
    const url = `http://${name}:${monitor}/varz`;
    const response = fetch(url, {
      signal: AbortSignal.timeout(limits.handshakeMillis)
    });
    const varz: unknown = await response
      .then((each) => each.json())
      .catch(() => undefined);
    const config = objectOf(objectOf(objectOf(varz)["jetstream"])["config"]);
    if (config["sync_always"] === true) continue;
    if (varz !== undefined)
      throw new EngineError("config", `${url}: ${unsafe}`);
    const problem = `${url} does not answer: not verified that it syncs every write`;
    if (shown === connected.shown)
      throw new EngineError("unreachable", problem);
    warnings.push(problem);
  }
  return warnings;
}

const unsafe =
  "expected sync_interval: always; without it, a power cut loses acknowledged plants";
const unverified =
  "not verified: that the servers sync each write (monitor=PORT: they are asked)";
