/** Opens the store: a journal, or the stream of an engine. */
import type { EventEmitter } from "node:events";
import {
  openJournal,
  type Journal,
  type JournalError,
  type PlantStore
} from "../index.ts";
import { checkJournal } from "../journal/open.ts";
import type { StoreEvents } from "../store.ts";
import type { Host } from "./host.ts";
import {
  readCertificates,
  readCredentialsFile,
  readTlsPair
} from "./secrets.ts";
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

/** Opens the store; a stream reads its files at each connection. @throws JournalError, ExitError */
export async function openStore(config: Config, host: Host): Promise<Store> {
  const { limits, store, storeAppendMillis, storeHandshakeMillis } = config;
  const warn = (message: string) => host.log("warn", message);
  if (!isStream(store)) return openJournal(store, { limits, warn });

  // Loaded on demand: a server with a journal never does.
  const { openNats } = await import("../nats/nats.ts");
  return openNats(store, {
    warn,

    // The other limits are the journal's: a stream has its own.
    keys: limits.keysBytesMax > 0,
    limits: {
      appendMillis: storeAppendMillis,
      handshakeMillis: storeHandshakeMillis
    },
    ...streamSecrets(config, host)
  });
}

/**
 * Checks what can be known of a store without opening it.
 *
 * @throws JournalError, or ExitError with a line for each mistake
 */
export async function checkStore(config: Config, host: Host) {
  const { store } = config;
  if (!isStream(store)) return checkJournal(store);
  const { settingsOf } = await import("../nats/address.ts");
  settingsOf(store, streamSecrets(config, host));
}

/** Returns what reads the secret files of a stream. */
const streamSecrets = (
  { storeCredentials, storeTlsCert, storeTlsKey, storeTlsCa }: Config,
  host: Host
) => ({
  credentials: () =>
    storeCredentials === ""
      ? undefined
      : readCredentialsFile(storeCredentials, host),
  tls: () => ({
    ...(storeTlsCert && readTlsPair(storeTlsCert, storeTlsKey, host)),
    ...(storeTlsCa && {
      ca: readCertificates("TLS authority", storeTlsCa, host)
    })
  })
});
