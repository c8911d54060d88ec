/** Opens the store: a journal, or the stream of an engine. */
import type { EventEmitter } from "node:events";
import {
  openJournal,
  type Journal,
  type JournalError,
  type PlantStore
} from "../index.ts";
import type { StoreEvents } from "../store.ts";
import type { Host } from "./host.ts";
import { assertFolder } from "./listen.ts";
import { readAuthority, readCredentialsFile, readTlsPair } from "./secrets.ts";
import { isStream, type Config } from "./settings.ts";

/** A store as the program needs it. A journal has every member but `isReachable`. */
export interface Store
  extends PlantStore, EventEmitter<StoreEvents<JournalError>> {
  readonly stats: Partial<Journal["stats"]> & {
    readonly queue: Journal["stats"]["queue"];

    /** Whether a server of the stream is connected, or was a moment ago. */
    readonly isReachable?: boolean;
  };

  rotate?: Journal["rotate"];
}

/** Opens the store. @throws JournalError, EngineError */
export async function openStore(config: Config, host: Host): Promise<Store> {
  const { store: address, limits, storeAppendMillis } = config;
  const warn = (message: string) => host.log("warn", message);

  // The limits are the journal's: a stream has its own.
  if (!isStream(address)) {
    assertFolder(address);
    return openJournal(address, { limits, warn });
  }

  // Loaded on demand: a server with a journal never loads an engine.
  const { openNats } = await import("../engines/nats.ts");
  const keys = limits.keysBytesMax > 0;
  const { limits: streamLimits, ...secrets } = streamOptions(config, host);
  return openNats(address, {
    ...secrets,
    limits: { ...streamLimits, appendMillis: storeAppendMillis },
    keys,
    warn
  });
}

/** Returns the options of a stream. Its files are read for each connection. */
export const streamOptions = (config: Config, host: Host) => ({
  credentials: () =>
    config.storeCredentials === ""
      ? undefined
      : readCredentialsFile(config.storeCredentials, host),
  tls: () => ({
    ...(config.storeTlsCert &&
      readTlsPair(config.storeTlsCert, config.storeTlsKey, host)),
    ...(config.storeTlsCa && { ca: readAuthority(config.storeTlsCa, host) })
  }),
  limits: { handshakeMillis: config.storeHandshakeMillis }
});
