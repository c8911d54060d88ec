/** Plants over node:http, to a port or a Unix socket. */
import { once } from "node:events";
import { request, type IncomingMessage, type RequestOptions } from "node:http";
import { json } from "node:stream/consumers";
import { fern } from "./requests.ts";
import { token } from "./support.ts";

export interface Answer {
  readonly status: number;
  readonly error: number | undefined;
}

/** Posts a plant; rejects if no whole response arrives. */
export async function postTo(
  to: RequestOptions,
  { body = fern, bearer = token } = {}
): Promise<Answer> {
  const asked = request({
    host: "127.0.0.1",
    agent: false,
    ...to,
    path: "/plants",
    method: "POST",
    headers: {
      "authorization": `Bearer ${bearer}`,
      "content-type": "application/json"
    }
  });
  // A connection may be reset again after the error that rejects.
  asked.on("error", () => undefined).end(body);
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  const { error } = (await json(answer)) as { readonly error?: number };
  return { status: Number(answer.statusCode), error };
}
