// An OpenID provider with everybody's account, for tests: whoever types a name
// is signed in under it. After GET /acting that is support staff who act as them.
import Provider from 'oidc-provider';

const [port, redirect, logout] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

let acting = false;

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'grantkeeper',
    client_secret: 'the-secret-of-grantkeeper-at-the-provider',
    redirect_uris: [redirect],
    backchannel_logout_uri: logout,
    backchannel_logout_session_required: true,
  }],
  claims: { openid: ['sub', 'act'], email: ['email', 'email_verified'], profile: ['name'] },
  features: {
    backchannelLogout: { enabled: true },
    // The page of the package asks another host for its letters.
    rpInitiatedLogout: {
      logoutSource: (ctx, form) => {
        ctx.body = `<!doctype html><title>Sign out</title>${form}<button form="op.logoutForm" value="yes" name="logout">Yes</button>`;
      },
      postLogoutSuccessSource: (ctx) => { ctx.body = '<!doctype html><title>Out</title>Sign-out Success'; },
    },
  },
  fetch: (url, options) => { delete options.dispatcher; return fetch(url, options); }, // to loopback too
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id, name: id, email: `${id}@nordlys.example`, email_verified: id !== 'eve',
      ...(acting ? { act: { sub: 'support-7' } } : {}),
    }),
  }),
  // People consent at Grantkeeper; here they sign in alone.
  loadExistingGrant: async (ctx) => {
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope('openid email profile');
    await grant.save();
    return grant;
  },
});
// It talks to loopback in clear, like the server under test.
provider.use(async (ctx, next) => {
  if (ctx.path !== '/acting') {
    await next();
    return;
  }
  acting = true;
  ctx.body = 'acting';
});
for (const event of ['backchannel.error', 'server_error']) provider.on(event, (_, err) => console.error(event, err));
provider.listen(Number(port), '127.0.0.1', () => console.log(issuer));
