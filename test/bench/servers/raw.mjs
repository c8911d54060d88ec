/** No HTTP at all: the same bytes for whatever arrives. How fast the load generator can be. */
import { createServer } from "node:net";
import { listen } from "./common.mjs";

const answer = Buffer.from(
  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" +
    'Content-Length: 29\r\n\r\n{"name":"Fern","tag":"shade"}'
);
// A request is one segment, and the next one waits for its answer: a chunk is a request.
listen(
  createServer({ noDelay: true }, (socket) => {
    socket
      .on("data", () => socket.write(answer))
      .on("error", () => socket.destroy());
  })
);
