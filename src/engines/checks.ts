/** Whether a stream and its servers keep what they acknowledge: asked before anything is sent. */
import { setTimeout } from "node:timers/promises";
import { EngineError } from "../store.ts";
import type { Connection } from "./server-connection.ts";
import type { Link } from "./session.ts";
import {
  objectOf,
  publication,
  readObject,
  type JsonObject
} from "./protocol.ts";
import type { Host } from "./address.ts";

/**
 * Waits for a leader that answers, for as long as `isolationMillis`.
 *
 * @throws EngineError `config` with the reasons, and the JSON that would make a right stream
 */
export async function checkStream(
  connection: Connection,
  link: Link
): Promise<void> {
  const {
    inbox,
    target: { stream },
    limits: { isolationMillis }
  } = link;
  for (let asked = 0; asked < 8; asked++) {
    // A leader that has just lost its quorum may never answer: so it is asked again.
    const pause = setTimeout(isolationMillis / 8, undefined);
    connection.write(
      publication(`$JS.API.STREAM.INFO.${stream}`, `${inbox}.0`)
    );
    const reply = await Promise.race([connection.next("MSG"), pause]);
    const { error, config } = reply ? readObject(reply.payload) : {};
    const { err_code: code, description } = objectOf(error);

    // 10008, JetStream is away for now: an election, as no answer is.
    if (code !== 10008 && (error !== undefined || config !== undefined)) {
      const found = objectOf(config);
      const wanted = requirements(found, link);
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

/**
 * What a stream's settings must be: what they are, but for what loses, forgets or drops something
 * acknowledged, or acknowledges nothing.
 */
function requirements(found: JsonObject, { target, limits }: Link): JsonObject {
  const {
    max_bytes = -1,
    max_msgs = -1,
    discard = "new",
    persist_mode: mode
  } = found;
  const atLeast = (name: string, min: number): number =>
    Math.max(Number(found[name] ?? 0), min);
  return {
    subjects: [target.stream],

    // Memory is gone with its machine.
    storage: "file",
    num_replicas: atLeast("num_replicas", target.replicas),

    // The others delete what somebody has read.
    retention: "limits",
    max_bytes,
    max_msgs,

    // All plants have one subject: a limit for each would keep the last few.
    max_msgs_per_subject: -1,

    // What is old is deleted.
    max_age: 0,

    // The other way deletes the oldest.
    discard: Number(max_bytes) > 0 || Number(max_msgs) > 0 ? "new" : discard,

    // What is sent again until its deadline has to be recognised for much longer.
    duplicate_window: atLeast(
      "duplicate_window",
      4 * limits.appendMillis * 1e6
    ),

    // This mode acknowledges before it syncs.
    persist_mode: mode === "async" ? undefined : mode,

    // A 200 needs an acknowledgement.
    no_ack: undefined
  };
}

/** What is not as it must be, a reason each; what is undefined must not be there. */
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
 * Asks the servers' monitors whether they sync each write before they acknowledge it; of the one
 * that is connected there must be an answer.
 *
 * @throws EngineError
 */
export async function checkServers(
  hosts: readonly Host[],
  connected: Host,
  link: Link
) {
  const {
    target: { monitor },
    limits: { handshakeMillis }
  } = link;
  if (monitor === 0) return link.options.warn?.(unverified);
  for (const { name, shown } of hosts) {
    const url = `http://${name}:${monitor}/varz`;
    const answer = fetch(url, { signal: AbortSignal.timeout(handshakeMillis) });
    const varz: unknown = await answer
      .then((each) => each.json())
      .catch(() => undefined);
    const config = objectOf(objectOf(objectOf(varz)["jetstream"])["config"]);
    if (config["sync_always"] === true) continue;
    if (varz !== undefined)
      throw new EngineError("config", `${url}: ${unsafe}`);
    const problem = `${url} does not answer: not verified that it syncs every write`;
    if (shown === connected.shown)
      throw new EngineError("unreachable", problem);
    link.tell(problem);
  }
}

const unsafe =
  "expected sync_interval: always; without it, a power cut loses acknowledged plants";
const unverified =
  "not verified: that the servers sync each write (monitor=PORT: they are asked)";
