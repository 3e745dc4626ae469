from sim_core.support.extras import install_finder

install_finder()
