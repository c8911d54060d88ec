/** Checks whether a stream and its servers keep what they acknowledge. */
import { once } from "node:events";
import { get } from "node:http";
import { setTimeout } from "node:timers/promises";
import { ExitError } from "../failure.ts";
import {
  endpointsOf,
  subjectForm,
  type Endpoint,
  type StreamSettings
} from "./address.ts";
import type { NatsLimits } from "./limits.ts";
import {
  expectedOf,
  objectOf,
  readObject,
  type JsonObject
} from "./protocol.ts";
import type { ServerConnection } from "./server-connection.ts";

/**
 * Checks the stream and, with `monitor=PORT`, the servers that hold it. Waits up to
 * `noProgressMillis` for a server that was never verified, is up, and does not respond: it may be
 * going down.
 *
 * @param verified when each server was verified last, by its name or id; brought up to date
 * @param patienceMillis the time to wait for a leader that responds
 * @returns the stream's JetStream domain, if it has one, and a warning for each server that could
 *   not be asked
 * @throws ExitError `config` for a wrong setting, `unreachable` if a server does not respond
 */
export async function check(
  connection: ServerConnection,
  settings: StreamSettings,
  verified: Map<unknown, number>,
  patienceMillis: number
) {
  const { noProgressMillis } = settings.limits;
  const subject = `${settings.api}.STREAM.INFO.${settings.stream}`;
  let giveUpAt = performance.now() + patienceMillis;
  for (;;) {
    // A leader that has just lost its quorum may never respond: ask again.
    const pause = setTimeout(noProgressMillis / 8, undefined, { ref: false });
    const info = objectOf(await Promise.race([connection.ask(subject), pause]));
    const { error, config, domain } = info;
    const { err_code: code, description } = objectOf(error);
    let problem = error
      ? `the stream is away: ${description}`
      : `nobody leads the stream now, or no server on the way permits ${subject}`;

    // 10008: JetStream is away for now. In an election there is this response or none. The others:
    // the stream is offline, as after a downgrade of its servers.
    const isAway = [10008, 10118, 10194].includes(Number(code));
    if (!isAway && (error || config)) {
      requireRight(info, settings);
      const { missing, warnings } = await askServers(
        connection,
        info,
        settings,
        verified
      );
      if (!missing) return { domain, warnings };
      if (missing.name)
        problem =
          `not verified: that ${missing.name} syncs every write: no listed host has its monitor ` +
          "at the given port; plants are refused until it has: " +
          "every server needs its monitor at the same port";
      giveUpAt = Math.min(giveUpAt, performance.now() + noProgressMillis);
    }
    if (!connection.isOpen || performance.now() > giveUpAt)
      throw new ExitError("unreachable", problem);
    await pause;
  }
}

/**
 * Asks the servers: the connected one, and those that hold the stream. A replica that is not
 * current counts as down.
 *
 * @returns a warning for each server that does not respond, and the first of these that is up and
 *   was not verified before
 */
async function askServers(
  { info }: ServerConnection,
  { cluster }: JsonObject,
  settings: StreamSettings,
  verified: Map<unknown, number>
) {
  const { limits, monitorPort } = settings;
  if (monitorPort === null) return { warnings: [] };
  const endpoints = await endpointsOf(settings);
  const asked = endpoints.map((each) => askMonitor(each, settings));
  const responding: unknown[] = (await Promise.all(asked)).flat();

  // The wall clock gives the time: a suspended machine stops the monotonic one.
  const now = Date.now();
  for (const name of responding) verified.set(name, now);
  const { leader, replicas } = objectOf(cluster);
  const silent = [
    { name: info["server_id"], current: true },
    { name: leader, current: true },
    ...Object.values(objectOf(replicas))
  ]
    .map((server) => {
      // `active`: nanoseconds since the leader received its last heartbeat. One comes each second.
      const { name, current, active } = objectOf(server);
      const isHeard = Number(active ?? 0) < limits.ackTimeoutMillis * 1e6;
      return { name, isUp: current === true && isHeard };
    })
    .filter(({ name }) => !responding.includes(name));

  // Only a restart changes the setting. It is seen here, or it changes the server's id.
  for (const { name, isUp } of silent) if (!isUp) verified.delete(name);
  for (const [name, at] of verified)
    if (now - at > limits.verifiedMillis) verified.delete(name);
  return {
    missing: silent.find(({ name, isUp }) => isUp && !verified.has(name)),
    warnings: silent.map(({ name, isUp }) =>
      isUp
        ? `${name} does not respond at its monitor's port: it was verified, which counts for an hour at most`
        : `${name} is down: not verified that it syncs every write; it is asked when it is back`
    )
  };
}

/** @throws ExitError `config` with the problems of a stream and the JSON of a right one */
function requireRight({ error, config }: JsonObject, settings: StreamSettings) {
  const { api, stream, subject } = settings;
  const actual = objectOf(config);
  const found = String(actual["subjects"] ?? "");
  if (found !== subject && subjectForm.test(found))
    throw new ExitError(
      "config",
      `the stream ${stream} takes the subject ${found}: the address needs subject=${found}`
    );
  const required = requirements(actual, settings);
  const problems = error
    ? [JSON.stringify(objectOf(error)["description"])]
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

/**
 * Asks the monitor at an address whether its server syncs a write before it acknowledges it.
 *
 * @returns the server's name and id if it does; nothing if the monitor redirects, is silent, or
 *   does not end
 * @throws ExitError `config` for a server that does not
 */
async function askMonitor(endpoint: Endpoint, settings: StreamSettings) {
  const { monitorPort: port, limits } = settings;
  let body = "";
  let varz: JsonObject;
  try {
    const request = get({
      ...endpoint,
      port,
      path: "/varz",
      signal: AbortSignal.timeout(limits.handshakeMillis)
    });
    const [response] = await once(request, "response");

    // A redirect is not followed: it could lead to a host that is not listed.
    if (response.statusCode !== 200) return [];
    for await (const chunk of response.setEncoding("utf8")) {
      body += chunk;
      if (body.length > limits.messageBytesMax) return [];
    }
    varz = readObject(body);
  } catch {
    return [];
  }
  const { server_name, server_id, version, jetstream } = varz;
  const { sync_always } = objectOf(objectOf(jetstream)["config"]);
  const lacks =
    sync_always !== true
      ? "sync_interval: always; without it, a power cut loses acknowledged plants"
      : expectedOf(version);
  if (lacks !== "")
    throw new ExitError(
      "config",
      `${endpoint.host}:${port}/varz: expected ${lacks}`
    );
  return [String(server_name), String(server_id)];
}
