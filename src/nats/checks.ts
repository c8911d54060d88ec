/** Checks whether a stream and its servers keep what they acknowledge. */
import { setTimeout } from "node:timers/promises";
import { ExitError } from "../failure.ts";
import type { StreamSettings } from "./address.ts";
import type { NatsLimits } from "./limits.ts";
import { errorOf, expectedOf, objectOf, type JsonObject } from "./protocol.ts";
import type { ServerConnection } from "./server-connection.ts";

/** What the operator exports to the plants' account: each server responds with its settings. */
export const varzSubject = "$SYS.REQ.SERVER.PING.VARZ";

/** Waits; that alone does not keep the process running. */
export const pause = (millis: number) =>
  setTimeout(millis, undefined, { ref: false });

/**
 * Checks the stream, whether another one takes its messages, and, with `servers=SUBJECT`, each
 * server that holds it and is up.
 *
 * @param patienceMillis the time to wait for all responses
 * @returns the stream's JetStream domain, if it has one
 * @throws ExitError `config` for a wrong setting, also as the connection's end; `unreachable`
 */
export async function check(
  connection: ServerConnection,
  settings: StreamSettings,
  patienceMillis: number
) {
  const { api, limits, servers, stream } = settings;
  const subject = `${api}.STREAM.INFO.${stream}`;
  const giveUpAt = performance.now() + patienceMillis;
  const varzs = new Map<unknown, JsonObject>();
  let info: JsonObject = {};
  let problem = `nobody leads the stream now, or no server on the way permits ${subject}`;
  connection.countStreams();
  for (;;) {
    // A leader that has just lost its quorum may never respond, and a server may be down: asks
    // again.
    const paused = pause(limits.noProgressMillis / 8);
    const responded = new Promise<void>((resolve) => {
      const judge = () => {
        problem = problemOf(info, varzs, settings) ?? problem;
        if (problem === "") resolve();
      };
      connection.ask("stream", subject, (response) => {
        info = objectOf(response);
        judge();
      });
      if (servers === null) return;
      connection.ask("servers", servers, (response) => {
        const varz = objectOf(objectOf(response)["data"]);
        varzs.set(varz["server_name"], varz);
        judge();
      });
    });
    await Promise.race([responded, paused]);
    if (problem === "") return info["domain"];
    if (!connection.isOpen || performance.now() > giveUpAt)
      throw new ExitError("unreachable", problem);
    await paused;
  }
}

/**
 * Returns what is not known yet, "" if all is right, or undefined without a response of the stream.
 *
 * @throws ExitError `config`
 */
function problemOf(
  info: JsonObject,
  varzs: ReadonlyMap<unknown, JsonObject>,
  settings: StreamSettings
) {
  const { error, config, cluster } = info;
  const { code, text } = errorOf(info);
  if (error === undefined && config === undefined) return undefined;

  // 10008: JetStream is away for now. In an election there is this response or none. The others:
  // the stream is offline, as after a downgrade of its servers.
  if (code === 10008 || code === 10118 || code === 10194)
    return `the stream is away: ${text}`;
  requireRight(info, settings);
  const { servers, limits } = settings;
  if (servers === null) return "";
  const { ackTimeoutMillis } = limits;
  const { leader, replicas } = objectOf(cluster);
  const holders = [
    { name: leader, active: 1 },
    ...Object.values(objectOf(replicas))
  ];
  const [silent] = holders.map(objectOf).filter(({ name, active, offline }) => {
    const varz = varzs.get(name);
    if (varz) requireSync(varz);

    // `active`: nanoseconds since the leader received its last heartbeat; 0: it has received none.
    // One comes each second.
    const millis = Number(active) / 1e6;
    const isUp = offline !== true && millis > 0 && millis < ackTimeoutMillis;
    return isUp && !varz;
  });
  return silent
    ? `not verified: that ${silent["name"]} syncs each write: it does not respond to ` +
        `${servers}, which must be ${varzSubject}, imported from the system account`
    : "";
}

/** @throws ExitError `config` for a server that acknowledges what it may lose */
function requireSync({ server_name, version, jetstream }: JsonObject) {
  const { sync_always } = objectOf(objectOf(jetstream)["config"]);
  const lacks =
    sync_always === true
      ? expectedOf(version)
      : "sync_interval: always; without it, a power cut loses acknowledged plants";
  if (lacks !== "")
    throw new ExitError("config", `${server_name}: expected ${lacks}`);
}

/** @throws ExitError `config` with the problems of a stream and the JSON of a right one */
function requireRight(info: JsonObject, settings: StreamSettings) {
  const { error, config } = info;
  const { api, stream } = settings;
  const actual = objectOf(config);
  const required = requirements(actual, settings);
  const problems = error
    ? [JSON.stringify(errorOf(info).text)]
    : differences(actual, required);
  if (problems.length === 0) return;
  const corrected = {
    name: stream,
    deny_delete: true,
    deny_purge: true,

    // Of a new stream: an existing one has its own, -1 included.
    max_bytes: exampleBytesMax,
    ...actual,
    ...required
  };
  const create = `by ${api}.STREAM.CREATE.${stream} with`;
  const advice = error
    ? "name its JetStream domain in the address (domain=NAME) if it is in another, or create it " +
      `${create} this, its max_bytes below each server's max_file_store:`
    : `correct it by ${api}.STREAM.UPDATE.${stream}, or, where that is refused, create another ${create}`;
  throw new ExitError(
    "config",
    `the stream ${stream}: ${problems.join("; ")}\n${advice}\n${JSON.stringify(corrected)}`
  );
}

/**
 * The `max_bytes` of the stream in the README. Without one, the stream may fill a disk, and a full
 * disk disables JetStream on its server.
 */
const exampleBytesMax = 1_500_000_000;

/** Returns the settings that a stream must have: its own, corrected where they could lose a plant
 * or leave it without an acknowledgement. */
function requirements(
  actual: JsonObject,
  { subject, replicas, limits }: StreamSettings
) {
  const { max_bytes, max_msgs, discard = "new", persist_mode: mode } = actual;
  const atLeast = (name: string, min: number) =>
    Math.max(Number(actual[name] ?? 0), min);
  return {
    subjects: [subject],

    // Memory is lost with its machine.
    storage: "file",
    num_replicas: atLeast("num_replicas", replicas),

    // The other retentions delete a message that was read.
    retention: "limits",

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
    no_ack: undefined,

    // With a rollup header, the user that publishes could empty the stream.
    allow_rollup_hdrs: undefined,

    // A sealed stream takes nothing.
    sealed: undefined,

    // A stream of counters refuses every other message.
    allow_msg_counter: undefined
  };
}

/** Returns how long a stream must remember ids: much longer than a message is sent again. */
export const duplicateWindowMillis = (limits: NatsLimits) =>
  Math.max(limits.duplicateWindowMillisMin, 4 * limits.appendMillis);

/** Returns a reason for each setting that differs; an undefined setting must be absent or false. */
const differences = (actual: JsonObject, required: JsonObject) =>
  Object.keys(required).flatMap((name) => {
    const [expected = "none", found = "none"] = [required, actual].map((all) =>
      JSON.stringify(all[name] || undefined)
    );
    return expected === found
      ? []
      : [`${name}: expected ${expected}, found ${found}`];
  });
