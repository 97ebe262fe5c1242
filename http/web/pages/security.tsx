/** Security: rules for passwords and sessions, locked accounts, management addresses, the mail server, the master key. */
import type { Permission } from "#schema/permission.ts"
import type { ReactNode } from "react"
import { Addresses } from "../parts/addresses.tsx"
import { Tabs } from "../parts/forms.tsx"
import { LockedAccounts } from "../parts/locked-accounts.tsx"
import { MailServer } from "../parts/mail-server.tsx"
import { MasterKey } from "../parts/master-key.tsx"
import { SecurityRules } from "../parts/security-rules.tsx"
import { useSession } from "../session.tsx"

interface Part {
  readonly href: string
  readonly name: string
  readonly needs: Permission
  readonly content: ReactNode
}

const parts: ReadonlyArray<Part> = [
  { href: "security", name: "Passwords and sessions", needs: "user:read", content: <SecurityRules /> },
  { href: "security/locked", name: "Locked accounts", needs: "user:read", content: <LockedAccounts /> },
  { href: "security/addresses", name: "Management addresses", needs: "user:read", content: <Addresses /> },
  { href: "security/mail", name: "Mail server", needs: "system:read", content: <MailServer /> },
  { href: "security/key", name: "Master key", needs: "system:read", content: <MasterKey /> },
]

export const SecurityPage = ({ tab }: { readonly tab: string | null }) => {
  const { may } = useSession()
  const open = parts.filter(({ needs }) => may(needs))
  const now = open.find(({ href }) => href === (tab === null ? "security" : `security/${tab}`)) ?? open[0]
  return (
    <>
      <div className="head">
        <h1>Security</h1>
      </div>
      <Tabs label="Security" now={now?.href ?? ""} tabs={open.map(({ href, name }) => [href, name])} />
      {now?.content}
    </>
  )
}
