/**
 * The credentials of a NATS user, as a text: the user's name and the password, a line each.
 *
 *   credentials = user EOL password [EOL]
 *   EOL         = [CR] LF
 */
import { EngineError } from "../store.ts";

/** A text, or a function that returns it: called for every connection. */
export type Credentials = string | (() => string);

/** The members of CONNECT that log in. */
export type Login = Readonly<Record<string, string>>;

/**
 * Reads the text; without one there is nothing to log in with.
 *
 * @throws EngineError `refused`: the text is not quoted, the message of a function's error is
 */
export function readCredentials(credentials?: Credentials): Login {
  if (credentials === undefined) return {};
  const text =
    typeof credentials === "string" ? credentials : call(credentials);
  const [, user, pass] = form.exec(text) ?? [];
  if (user !== undefined && pass !== undefined) return { user, pass };
  throw refused("expected two lines, a user and a password");
}

const form = /^([^\r\n]+)\r?\n([^\r\n]+)(?:\r?\n)*$/;

function call(credentials: () => string): string {
  try {
    return credentials();
  } catch (error) {
    throw refused(error instanceof Error ? error.message : "cannot be read");
  }
}

const refused = (reason: string): EngineError =>
  new EngineError("refused", `the store's credentials: ${reason}`);
