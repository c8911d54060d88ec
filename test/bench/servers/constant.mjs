/** node:http at its barest: the body is not looked at. */
import { createServer } from "node:http";
import { listen } from "./common.mjs";

const answer = '{"name":"Fern","tag":"shade"}';
const fields = {
  "Content-Type": "application/json",
  "Content-Length": answer.length
};
listen(
  createServer((request, response) =>
    response.writeHead(200, fields).end(answer)
  )
);
