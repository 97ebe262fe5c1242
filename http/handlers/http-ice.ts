/** How answers of WHEP and WHIP tell the ICE servers of this node. */
import type { IceServer } from "#media/webrtc.ts"
import { Redacted } from "effect"

/** The value of a quoted parameter (RFC 9110, section 5.6.4). */
const quoted = (text: string): string => `"${text.replaceAll(/[\\"]/g, "\\$&")}"`

/** RFC 9725, section 4.6. Credentials are told to whoever was let in: browsers need them. */
const linkOf = ({ credential, url, username }: IceServer): string => {
  const link = `<${url}>; rel="ice-server"`
  return username === null || credential === null ?
    link :
    `${link}; username=${quoted(username)}; credential=${
      quoted(Redacted.value(credential))
    }; credential-type="password"`
}

/** The header `Link`; none where there is no server. */
export const iceLinks = (servers: ReadonlyArray<IceServer>): { readonly link?: string } =>
  servers.length === 0 ? {} : { link: servers.map(linkOf).join(", ") }
