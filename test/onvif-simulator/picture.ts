/** The picture that the simulated device serves: by GET, with Basic, Digest or nothing, well or badly. */
import type { IncomingMessage, ServerResponse } from "node:http"
import type { State } from "./state.ts"

/** 64 by 36 points of ffmpeg's `testsrc2`. */
export const picture = Buffer.from(
  "/9j/4AAQSkZJRgABAgAAAQABAAD//gAQTGF2YzU5LjM3LjEwMAD/2wBDAAgoKC8oLzc3Nzc3N0E8QUNDQ0FBQUFDQ0NISEhVVVVISEhDQ0hIUF" +
    "BVVVxfXFdXVVdfX2RkZHh4c3OMjJGsrM//xAB3AAEBAQEBAAAAAAAAAAAAAAAEAwUGBwEBAQEAAAAAAAAAAAAAAAAABAYFEAACAQIEBgMBAQEA" +
    "AAAAAAARAQAxAgMhExJCQTIiUYGhcdFhBMERAAEDAwIGAwEBAAAAAAAAAAECADERAyFB8JFRocFxgfESQjIi/8AAEQgAJABAAwEiAAIRAAMRAP" +
    "/aAAwDAQACEQMRAD8A8u73c1b98svbmlY8a1tLweEDyaCVtD1LQW9r2+Us38TbTWnsGddhzG4g+R7mZdum4cjFYOaV18OmWjC0k1HQ0OBR5+tj" +
    "WXLMerfya6/0491Lvi38mPdlprpabYfCWUYm3Peuptp/YeYmAQk5+qeA5vAQgJwMfFeOkPhdmIQOR5AeTQf2XTvw2KEPkyv452RWlpju6tM5jc" +
    "QfI9zIuYWHau1pth8JuKMuhfuKwSZIk6D+pjdXpBISag75OdmJiu7J/C/7N7VxyDyNLQPJoJmYbOon3NtMLiDLE6ArT2DOuzmNxH2PcAu6qvAd" +
    "JmN1YbltNw1Vk/WTnU/5g70fnGJ1OSUridTklC6PSv8A78925VjoFVjoUubTD46KthYq2XBaky3KsbBKsbAFiuz6ZMTqckpXE6nJKYGjp7/789" +
    "25VjoFVjoUubTD46KthYq2XBaky3KsbBKsbAFiuz6f/9k=",
  "base64",
)

const basic = ({ options: { password, username } }: State) =>
  `Basic ${Buffer.from(`${username}:${password}`, "utf8").toString("base64")}`

/** `digest`: whether the request carries a right answer to a challenge. */
export const servePicture = (
  state: State,
  message: IncomingMessage,
  response: ServerResponse,
  guard: { readonly challenge: () => string; readonly digest: () => boolean },
): void => {
  const { busy, picture: served, pictureAuth } = state.quirks
  const allowed = pictureAuth === "none" || (pictureAuth === "basic" ?
    message.headers.authorization === basic(state) :
    guard.digest())
  if (busy) response.writeHead(503).end()
  else if (!allowed) {
    response.writeHead(401, {
      "www-authenticate": pictureAuth === "basic" ? `Basic realm="simulated"` : guard.challenge(),
    })
      .end()
  } else if (served === "html") response.writeHead(200, { "content-type": "text/html" }).end("<h1>Sign in</h1>")
  else if (served === "disguised") response.writeHead(200, { "content-type": "image/jpeg" }).end("<script>1</script>")
  else if (served === "elsewhere") response.writeHead(302, { location: "http://203.0.113.9/a.jpg" }).end()
  else if (served === "silent") response.writeHead(200, { "content-type": "image/jpeg" }).write(picture.subarray(0, 9))
  else if (served === "endless") {
    response.writeHead(200, { "content-type": "image/jpeg" })
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536, 0xff)));
    }
    response.on("drain", more)
    more()
  } else response.writeHead(200, { "content-type": "image/jpeg" }).end(picture)
}
