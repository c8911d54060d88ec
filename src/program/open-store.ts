/** Where plants are kept: in a journal, or on a stream of an engine. */
import type { EventEmitter } from "node:events";
import { openJournal, type JournalError, type PlantStore } from "../index.ts";
import type { StoreEvents } from "../store.ts";
import type { Host } from "./host.ts";
import type { Config } from "./settings.ts";

/** What the program needs of a store: a journal has all of it but `isReachable`. */
export interface Store
  extends PlantStore, EventEmitter<StoreEvents<JournalError>> {
  readonly stats: {
    readonly queue: { readonly records: number; readonly bytes: number };
    readonly records?: number;
    readonly bytes?: number;

    /** Of an engine: whether a server is there, or was a moment ago. */
    readonly isReachable?: boolean;
  };

  rotate?(): Promise<boolean>;
}

/** Told by its scheme alone: whether the rest is good, the engine says, without quoting it. */
export const isStream = (place: string): boolean =>
  /^(?:nats|tls):/.test(place);

/**
 * Opens the store; `shown` is its place without a password.
 *
 * @throws JournalError, EngineError
 */
export async function openStore(
  { store: place, limits }: Config,
  { warn }: Host
) {
  // The limits are the journal's and the requests': an engine has its own.
  if (!isStream(place))
    return { store: await openJournal(place, { limits, warn }), shown: place };
  // Who has a journal never loads an engine.
  const stream = await (
    await import("../engines/nats.ts")
  ).openNats(place, { warn });
  return { store: stream, shown: stream.address };
}
