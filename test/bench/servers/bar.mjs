/** The bar: what any server on node:http must do, and nothing else. No check, no token, no store.
 */
import { createServer } from "node:http";
import { listen } from "./common.mjs";

listen(
  createServer((request, response) => {
    const chunks = [];
    request
      .on("data", (chunk) => chunks.push(chunk))
      .on("end", () => {
        const { name, tag } = JSON.parse(Buffer.concat(chunks).toString());
        const body = JSON.stringify({ name, tag });
        const length = Buffer.byteLength(body);
        response.writeHead(200, {
          "Content-Type": "application/json",
          "Content-Length": length
        });
        response.end(body);
      });
  })
);
