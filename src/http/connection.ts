/** What has to be remembered of a connection between its requests. */
import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

export interface Connection {
  /** The answer to the request that came last; answers leave in the order of requests. */
  last: ServerResponse | undefined;
  /** An answer has said `Connection: close`: no request behind it is executed. */
  closing: boolean;
}

export class Connections {
  readonly #known = new WeakMap<Duplex, Connection>();

  of(socket: Duplex): Connection {
    let connection = this.#known.get(socket);
    if (!connection) {
      connection = { last: undefined, closing: false };
      this.#known.set(socket, connection);
    }
    return connection;
  }
}
