/* proxy_main.h - `busbar proxy NAME [options]`. */
#ifndef BB_PROXIES_PROXY_MAIN_H
#define BB_PROXIES_PROXY_MAIN_H

/* bb_proxy_main - argv[0] is the subcommand's own name. Returns 0 or above, or a negative error. */
int bb_proxy_main(int argc, char **argv);

/* bb_proxy_check - whether bb_proxy_main would take these words, as far as that does not depend on the ranks; needs
 * neither MPI nor a GPU. Returns 0 or -BB_EUSAGE (said). */
int bb_proxy_check(int argc, char **argv);

#endif
